// Compares driver_abi.h with cuda.h at build time, where the build has CUDA's headers. No program
// contains this file.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "cuda/driver_abi.h"

namespace larder::copy::cuda {
namespace {

// Equal at the binary interface: numbers of one size, or pointers of any kind.
// CUDA's types are enums and pointers to opaque structs, ours are int and void*. A call passes
// both in the same registers.
template <typename Ours, typename Theirs>
constexpr bool same_type() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>)
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  else
    return sizeof(Ours) == sizeof(Theirs);
}

template <typename Ours, typename Theirs>
struct Same : std::false_type {};
template <typename Result, typename... Ours, typename TheirResult, typename... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct Same<Result (*)(Ours...), TheirResult (*)(Theirs...)>
    : std::bool_constant<same_type<Result, TheirResult>() && (same_type<Ours, Theirs>() && ...)> {
};

// PFN_cuName_vN is the type of a function since version N of CUDA, for example v12080 since 12.8.
// The right one is the newest up to the version in driver.cc.
#define LARDER_SAME(member, type) \
  static_assert(Same<decltype(DriverTable::member), type>::value, #member)
LARDER_SAME(init, PFN_cuInit_v2000);
LARDER_SAME(get_error_name, PFN_cuGetErrorName_v6000);
LARDER_SAME(pointer_get_attribute, PFN_cuPointerGetAttribute_v4000);
LARDER_SAME(device_get, PFN_cuDeviceGet_v2000);
LARDER_SAME(device_get_attribute, PFN_cuDeviceGetAttribute_v2000);
LARDER_SAME(ctx_get_device, PFN_cuCtxGetDevice_v2000);
LARDER_SAME(device_primary_ctx_retain, PFN_cuDevicePrimaryCtxRetain_v7000);
LARDER_SAME(device_primary_ctx_release, PFN_cuDevicePrimaryCtxRelease_v11000);
LARDER_SAME(ctx_push_current, PFN_cuCtxPushCurrent_v4000);
LARDER_SAME(ctx_pop_current, PFN_cuCtxPopCurrent_v4000);
LARDER_SAME(ctx_get_stream_priority_range, PFN_cuCtxGetStreamPriorityRange_v5050);
LARDER_SAME(thread_exchange_stream_capture_mode, PFN_cuThreadExchangeStreamCaptureMode_v10010);
LARDER_SAME(stream_is_capturing, PFN_cuStreamIsCapturing_v10000);
LARDER_SAME(stream_create_with_priority, PFN_cuStreamCreateWithPriority_v5050);
LARDER_SAME(stream_destroy, PFN_cuStreamDestroy_v4000);
LARDER_SAME(stream_synchronize, PFN_cuStreamSynchronize_v2000);
LARDER_SAME(stream_wait_event, PFN_cuStreamWaitEvent_v3020);
LARDER_SAME(event_create, PFN_cuEventCreate_v2000);
LARDER_SAME(event_record, PFN_cuEventRecord_v2000);
LARDER_SAME(event_synchronize, PFN_cuEventSynchronize_v2000);
LARDER_SAME(event_destroy, PFN_cuEventDestroy_v4000);
LARDER_SAME(mem_alloc, PFN_cuMemAlloc_v3020);
LARDER_SAME(mem_free, PFN_cuMemFree_v3020);
LARDER_SAME(mem_host_alloc, PFN_cuMemHostAlloc_v2020);
LARDER_SAME(mem_free_host, PFN_cuMemFreeHost_v2000);
LARDER_SAME(mem_host_register, PFN_cuMemHostRegister_v6050);
LARDER_SAME(mem_host_unregister, PFN_cuMemHostUnregister_v4000);
LARDER_SAME(mem_host_get_device_pointer, PFN_cuMemHostGetDevicePointer_v3020);
LARDER_SAME(memcpy_async, PFN_cuMemcpyAsync_v4000);
LARDER_SAME(memcpy_batch, PFN_cuMemcpyBatchAsync_v12080);
LARDER_SAME(module_load_data, PFN_cuModuleLoadData_v2000);
LARDER_SAME(module_unload, PFN_cuModuleUnload_v2000);
LARDER_SAME(module_get_function, PFN_cuModuleGetFunction_v2000);
LARDER_SAME(launch_kernel, PFN_cuLaunchKernel_v4000);
LARDER_SAME(device_get_count, PFN_cuDeviceGetCount_v2000);
LARDER_SAME(device_get_uuid, PFN_cuDeviceGetUuid_v11040);
LARDER_SAME(device_get_uuid_whole, PFN_cuDeviceGetUuid_v9020);
LARDER_SAME(mem_get_address_range, PFN_cuMemGetAddressRange_v3020);
LARDER_SAME(ipc_get_mem_handle, PFN_cuIpcGetMemHandle_v4010);
LARDER_SAME(ipc_open_mem_handle, PFN_cuIpcOpenMemHandle_v11000);
LARDER_SAME(ipc_close_mem_handle, PFN_cuIpcCloseMemHandle_v4010);
LARDER_SAME(mem_retain_allocation_handle, PFN_cuMemRetainAllocationHandle_v11000);
LARDER_SAME(mem_release, PFN_cuMemRelease_v10020);
LARDER_SAME(mem_export_to_shareable_handle, PFN_cuMemExportToShareableHandle_v10020);
LARDER_SAME(mem_import_from_shareable_handle, PFN_cuMemImportFromShareableHandle_v10020);
LARDER_SAME(mem_address_reserve, PFN_cuMemAddressReserve_v10020);
LARDER_SAME(mem_address_free, PFN_cuMemAddressFree_v10020);
LARDER_SAME(mem_map, PFN_cuMemMap_v10020);
LARDER_SAME(mem_unmap, PFN_cuMemUnmap_v10020);
LARDER_SAME(mem_set_access, PFN_cuMemSetAccess_v10020);
#undef LARDER_SAME
static_assert(Same<GetProcAddress, PFN_cuGetProcAddress_v12000>::value);

// Result codes and flags are fixed numbers of the interface. A changed number would show here, and
// not as a wrong decision on a GPU.
static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE &&
              kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kNotInitialized == CUDA_ERROR_NOT_INITIALIZED && kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
              kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kPointerContext == CU_POINTER_ATTRIBUTE_CONTEXT &&
              kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
              kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING &&
              kEventBlockingSync == CU_EVENT_BLOCKING_SYNC);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kHostDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP &&
              kHostDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kAccessOrderStream == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
static_assert(kBesideCompute == CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);

static_assert(kNotPermitted == CUDA_ERROR_NOT_PERMITTED &&
              kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kUncorrectableMemory == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(kOperatingSystem == CUDA_ERROR_OPERATING_SYSTEM);
static_assert(kProcessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kComputeMode == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
static_assert(kComputeModeDefault == CU_COMPUTEMODE_DEFAULT);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE &&
              kPointerBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS &&
              kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kHandleTypeDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(sizeof(DeviceUuid) == sizeof(CUuuid) && sizeof(IpcHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(AllocationHandle) == sizeof(CUmemGenericAllocationHandle) &&
              sizeof(MemLocation) == sizeof(CUmemLocation));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc) &&
              offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));

// The driver reads these structs from our memory, so every offset counts.
static_assert(sizeof(CopyAttributes) == sizeof(CUmemcpyAttributes) &&
              sizeof(DevicePtr) == sizeof(CUdeviceptr));
static_assert(offsetof(CopyAttributes, source_access_order) ==
              offsetof(CUmemcpyAttributes, srcAccessOrder));
static_assert(offsetof(CopyAttributes, source_hint) == offsetof(CUmemcpyAttributes, srcLocHint));
static_assert(offsetof(CopyAttributes, destination_hint) ==
              offsetof(CUmemcpyAttributes, dstLocHint));
static_assert(offsetof(CopyAttributes, flags) == offsetof(CUmemcpyAttributes, flags));

}  // namespace
}  // namespace larder::copy::cuda
