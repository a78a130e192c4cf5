// The part of NVIDIA's driver API (libcuda.so.1) that Larder uses, by its binary interface. A build
// needs no CUDA header, and no other file sees one. driver_abi_check.cc compares this file with
// cuda.h where the build has cuda.h.
//
// All versions are those of CUDA 12.0, except the batch of copies, which came with 12.8. Plain
// data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace larder::copy::cuda {

using Handle = void*;  // a context, stream, event, module or function
using DevicePtr = std::uint64_t;
using ResultCode = int;

inline constexpr ResultCode kSuccess = 0;
inline constexpr ResultCode kInvalidValue = 1;
inline constexpr ResultCode kOutOfMemory = 2;
inline constexpr ResultCode kNotInitialized = 3;
inline constexpr ResultCode kNoDevice = 100;
inline constexpr ResultCode kInvalidContext = 201;
inline constexpr ResultCode kUncorrectableMemory = 214;
inline constexpr ResultCode kOperatingSystem = 304;
inline constexpr ResultCode kNotFound = 500;
inline constexpr ResultCode kNotReady = 600;
inline constexpr ResultCode kIllegalAddress = 700;
inline constexpr ResultCode kAlreadyRegistered = 712;
inline constexpr ResultCode kNotPermitted = 800;
inline constexpr ResultCode kNotSupported = 801;
// A stream is being captured into a graph, and the call cannot run in or beside the capture
// (CUDA_ERROR_STREAM_CAPTURE_*, CUDA_ERROR_CAPTURED_EVENT). The context is intact.
inline constexpr ResultCode kFirstCaptureError = 900;
inline constexpr ResultCode kCaptureImplicit = 906;
inline constexpr ResultCode kLastCaptureError = 908;
constexpr bool is_capture_error(ResultCode code) {
  return code >= kFirstCaptureError && code <= kLastCaptureError;
}

inline constexpr int kProcessorCount = 16;       // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kComputeMode = 20;          // CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
inline constexpr int kComputeModeDefault = 0;    // any number of processes may have contexts
inline constexpr int kPointerContext = 1;        // CU_POINTER_ATTRIBUTE_CONTEXT
inline constexpr int kPointerMemoryType = 2;     // ..._MEMORY_TYPE
inline constexpr int kPointerBufferId = 7;       // ..._BUFFER_ID: never repeats in a process
inline constexpr int kPointerDeviceOrdinal = 9;  // ..._DEVICE_ORDINAL
inline constexpr unsigned kMemoryTypeDevice = 2;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1;   // of cuMemHostAlloc and cuMemHostRegister
inline constexpr unsigned kHostDeviceMap = 2;  // of both
inline constexpr int kAccessOrderStream = 1;   // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
inline constexpr unsigned kBesideCompute = 1;  // CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE

inline constexpr int kCaptureRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kNotCapturing = 0;    // CU_STREAM_CAPTURE_STATUS_NONE

struct MemLocation {
  int type = 0;
  int id = 0;
};

inline constexpr unsigned kIpcLazyPeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr int kHandleTypeDescriptor = 1;    // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kLocationDevice = 1;          // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kAccessReadWrite = 3;         // CU_MEM_ACCESS_FLAGS_PROT_READWRITE

struct DeviceUuid {
  unsigned char bytes[16] = {};
};

struct IpcHandle {  // passed by value
  unsigned char bytes[64] = {};
};

using AllocationHandle = unsigned long long;  // CUmemGenericAllocationHandle

struct AccessDescription {
  MemLocation location;
  int flags = 0;
};

struct CopyAttributes {
  int source_access_order = 0;
  MemLocation source_hint;
  MemLocation destination_hint;
  unsigned flags = 0;
};

// Functions by their names in cuda.h without "cu". memcpy_batch may be nullptr. The functions that
// share memory between processes are all there or all absent. All other functions are there.
struct DriverTable {
  ResultCode (*init)(unsigned flags);
  ResultCode (*get_error_name)(ResultCode, const char** name);
  ResultCode (*pointer_get_attribute)(void* value, int attribute, DevicePtr);
  ResultCode (*device_get)(int* device, int ordinal);
  ResultCode (*device_get_attribute)(int* value, int attribute, int device);
  ResultCode (*ctx_get_device)(int* device);
  ResultCode (*device_primary_ctx_retain)(Handle* context, int device);
  ResultCode (*device_primary_ctx_release)(int device);
  ResultCode (*ctx_push_current)(Handle context);
  ResultCode (*ctx_pop_current)(Handle* context);
  ResultCode (*ctx_get_stream_priority_range)(int* least, int* greatest);
  ResultCode (*thread_exchange_stream_capture_mode)(int* mode);
  ResultCode (*stream_is_capturing)(Handle stream, int* status);
  ResultCode (*stream_create_with_priority)(Handle* stream, unsigned flags, int priority);
  ResultCode (*stream_destroy)(Handle stream);
  ResultCode (*stream_synchronize)(Handle stream);
  ResultCode (*stream_wait_event)(Handle stream, Handle event, unsigned flags);
  ResultCode (*event_create)(Handle* event, unsigned flags);
  ResultCode (*event_record)(Handle event, Handle stream);
  ResultCode (*event_synchronize)(Handle event);
  ResultCode (*event_destroy)(Handle event);
  ResultCode (*mem_alloc)(DevicePtr* memory, std::size_t bytes);
  ResultCode (*mem_free)(DevicePtr memory);
  ResultCode (*mem_host_alloc)(void** memory, std::size_t bytes, unsigned flags);
  ResultCode (*mem_free_host)(void* memory);
  ResultCode (*mem_host_register)(void* memory, std::size_t bytes, unsigned flags);
  ResultCode (*mem_host_unregister)(void* memory);
  ResultCode (*mem_host_get_device_pointer)(DevicePtr* pointer, void* memory, unsigned flags);
  ResultCode (*memcpy_async)(DevicePtr to, DevicePtr from, std::size_t bytes, Handle stream);
  ResultCode (*memcpy_batch)(DevicePtr* to, DevicePtr* from, std::size_t* bytes, std::size_t count,
                             CopyAttributes* attributes, std::size_t* attribute_starts,
                             std::size_t attribute_count, std::size_t* failed, Handle stream);
  ResultCode (*module_load_data)(Handle* module, const void* image);
  ResultCode (*module_unload)(Handle module);
  ResultCode (*module_get_function)(Handle* function, Handle module, const char* name);
  ResultCode (*launch_kernel)(Handle function, unsigned blocks_x, unsigned blocks_y,
                              unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                              unsigned threads_z, unsigned shared_bytes, Handle stream,
                              void** parameters, void** extra);
  ResultCode (*device_get_count)(int* count);
  // The UUID of the MIG instance, if the device is one.
  ResultCode (*device_get_uuid)(DeviceUuid* uuid, int device);
  // The UUID of the GPU, also for a MIG instance.
  ResultCode (*device_get_uuid_whole)(DeviceUuid* uuid, int device);
  ResultCode (*mem_get_address_range)(DevicePtr* base, std::size_t* bytes, DevicePtr);
  ResultCode (*ipc_get_mem_handle)(IpcHandle* handle, DevicePtr);
  ResultCode (*ipc_open_mem_handle)(DevicePtr* memory, IpcHandle handle, unsigned flags);
  ResultCode (*ipc_close_mem_handle)(DevicePtr memory);
  ResultCode (*mem_retain_allocation_handle)(AllocationHandle* handle, void* address);
  ResultCode (*mem_release)(AllocationHandle handle);
  ResultCode (*mem_export_to_shareable_handle)(void* shared, AllocationHandle handle, int type,
                                               unsigned long long flags);
  ResultCode (*mem_import_from_shareable_handle)(AllocationHandle* handle, void* shared, int type);
  ResultCode (*mem_address_reserve)(DevicePtr* address, std::size_t bytes, std::size_t alignment,
                                    DevicePtr wanted, unsigned long long flags);
  ResultCode (*mem_address_free)(DevicePtr address, std::size_t bytes);
  ResultCode (*mem_map)(DevicePtr address, std::size_t bytes, std::size_t offset,
                        AllocationHandle handle, unsigned long long flags);
  ResultCode (*mem_unmap)(DevicePtr address, std::size_t bytes);
  ResultCode (*mem_set_access)(DevicePtr address, std::size_t bytes,
                               const AccessDescription* descriptions, std::size_t count);
};

// The function that finds all others by name and interface version, since CUDA 12.0.
using GetProcAddress = ResultCode (*)(const char* name, void** function, int version,
                                      std::uint64_t flags, int* found);
inline constexpr const char* kGetProcAddressName = "cuGetProcAddress_v2";

}  // namespace larder::copy::cuda
