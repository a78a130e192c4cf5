#include "cuda/driver.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>
#include <string>

namespace larder::copy::cuda {
namespace {

// cuGetProcAddress gives the interface of this version, even from a newer driver. The signatures
// in driver_abi.h stay valid.
constexpr int kVersion = 12000;
// Since 11.4 this name gives a function that tells the UUID of a MIG instance.
constexpr int kWholeUuidVersion = 9020;
// The function of this name in CUDA 13.0 has one parameter fewer.
constexpr int kBatchVersion = 12080;

// nullptr: the driver lacks the function.
template <typename Function>
bool get(GetProcAddress by_name, const char* name, int version, Function& function) {
  void* found = nullptr;
  const bool there = by_name(name, &found, version, 0, nullptr) == kSuccess && found != nullptr;
  function = there ? reinterpret_cast<Function>(found) : nullptr;
  return there;
}

}  // namespace

Status Driver::fill(GetProcAddress by_name) {
  std::string missing;
  // All missing names in one error: a user with an old driver sees the whole reason at once.
  const auto need = [&](const char* name, auto& function) {
    if (!get(by_name, name, kVersion, function))
      missing += std::string(missing.empty() ? "" : ", ") + name;
  };
  need("cuInit", table_.init);
  need("cuGetErrorName", table_.get_error_name);
  need("cuPointerGetAttribute", table_.pointer_get_attribute);
  need("cuDeviceGet", table_.device_get);
  need("cuDeviceGetAttribute", table_.device_get_attribute);
  need("cuCtxGetDevice", table_.ctx_get_device);
  need("cuDevicePrimaryCtxRetain", table_.device_primary_ctx_retain);
  need("cuDevicePrimaryCtxRelease", table_.device_primary_ctx_release);
  need("cuCtxPushCurrent", table_.ctx_push_current);
  need("cuCtxPopCurrent", table_.ctx_pop_current);
  need("cuCtxGetStreamPriorityRange", table_.ctx_get_stream_priority_range);
  need("cuThreadExchangeStreamCaptureMode", table_.thread_exchange_stream_capture_mode);
  need("cuStreamIsCapturing", table_.stream_is_capturing);
  need("cuStreamCreateWithPriority", table_.stream_create_with_priority);
  need("cuStreamDestroy", table_.stream_destroy);
  need("cuStreamSynchronize", table_.stream_synchronize);
  need("cuStreamWaitEvent", table_.stream_wait_event);
  need("cuEventCreate", table_.event_create);
  need("cuEventRecord", table_.event_record);
  need("cuEventSynchronize", table_.event_synchronize);
  need("cuEventDestroy", table_.event_destroy);
  need("cuMemAlloc", table_.mem_alloc);
  need("cuMemFree", table_.mem_free);
  need("cuMemHostAlloc", table_.mem_host_alloc);
  need("cuMemFreeHost", table_.mem_free_host);
  need("cuMemHostRegister", table_.mem_host_register);
  need("cuMemHostUnregister", table_.mem_host_unregister);
  need("cuMemHostGetDevicePointer", table_.mem_host_get_device_pointer);
  need("cuMemcpyAsync", table_.memcpy_async);
  need("cuModuleLoadData", table_.module_load_data);
  need("cuModuleUnload", table_.module_unload);
  need("cuModuleGetFunction", table_.module_get_function);
  need("cuLaunchKernel", table_.launch_kernel);
  if (!missing.empty())
    return {Code::kUnsupported,
            "libcuda.so.1 lacks " + missing + ": a driver of CUDA 12 is needed"};
  get(by_name, "cuMemcpyBatchAsync", kBatchVersion, table_.memcpy_batch);
  fill_sharing(by_name);
  return {};
}

// All functions or no sharing: a part of them is useless.
void Driver::fill_sharing(GetProcAddress by_name) {
  shares_ = true;
  const auto want = [&](const char* name, int version, auto& function) {
    shares_ = get(by_name, name, version, function) && shares_;
  };
  want("cuDeviceGetCount", kVersion, table_.device_get_count);
  want("cuDeviceGetUuid", kVersion, table_.device_get_uuid);
  want("cuDeviceGetUuid", kWholeUuidVersion, table_.device_get_uuid_whole);
  want("cuMemGetAddressRange", kVersion, table_.mem_get_address_range);
  want("cuIpcGetMemHandle", kVersion, table_.ipc_get_mem_handle);
  want("cuIpcOpenMemHandle", kVersion, table_.ipc_open_mem_handle);
  want("cuIpcCloseMemHandle", kVersion, table_.ipc_close_mem_handle);
  want("cuMemRetainAllocationHandle", kVersion, table_.mem_retain_allocation_handle);
  want("cuMemRelease", kVersion, table_.mem_release);
  want("cuMemExportToShareableHandle", kVersion, table_.mem_export_to_shareable_handle);
  want("cuMemImportFromShareableHandle", kVersion, table_.mem_import_from_shareable_handle);
  want("cuMemAddressReserve", kVersion, table_.mem_address_reserve);
  want("cuMemAddressFree", kVersion, table_.mem_address_free);
  want("cuMemMap", kVersion, table_.mem_map);
  want("cuMemUnmap", kVersion, table_.mem_unmap);
  want("cuMemSetAccess", kVersion, table_.mem_set_access);
}

Result<const Driver*> Driver::find() {
  return find(RTLD_NOW | RTLD_NOLOAD, "this process has not loaded libcuda.so.1");
}

Result<const Driver*> Driver::load() {
  return find(RTLD_NOW, "there is no libcuda.so.1 to load");
}

Result<const Driver*> Driver::find(int mode, const char* missing) {
  static std::mutex mutex;
  static std::optional<Driver> found;
  const std::lock_guard lock(mutex);
  // A failure is not kept: the engine may load the library after the first question.
  if (found) return &*found;
  // Stays open, because the table points into the library.
  void* const library = ::dlopen("libcuda.so.1", mode);
  if (library == nullptr) return Status(Code::kUnavailable, missing);
  const auto get_proc_address =
      reinterpret_cast<GetProcAddress>(::dlsym(library, kGetProcAddressName));
  if (get_proc_address == nullptr)
    return Status(Code::kUnsupported,
                  "libcuda.so.1 has no cuGetProcAddress_v2: a driver of CUDA 12 is needed");
  Driver driver;
  driver.in_library_ = reinterpret_cast<const void*>(get_proc_address);
  if (Status status = driver.fill(get_proc_address); !status.ok()) return status;
  found = driver;
  return &*found;
}

std::string Driver::file() const {
  Dl_info info{};
  return ::dladdr(in_library_, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

ContextScope::ContextScope(const Driver& driver, Handle context)
    : driver_(driver), result_(driver->ctx_push_current(context)) {  // mutation: context-per-call
  // The exchange returns the former mode in the same variable, which the destructor exchanges
  // back.
  if (result_ == kSuccess)  // mutation: capture-relaxed
    driver_->thread_exchange_stream_capture_mode(&capture_mode_);
}

ContextScope::~ContextScope() {
  if (result_ != kSuccess) return;
  Handle popped = nullptr;
  driver_->thread_exchange_stream_capture_mode(&capture_mode_);
  driver_->ctx_pop_current(&popped);  // mutation: context-restored
}

Status Driver::status(ResultCode result, std::string_view function) const {
  if (result == kSuccess) return {};
  const char* name = nullptr;
  if (table_.get_error_name(result, &name) != kSuccess || name == nullptr)
    name = "an error without a name";
  // Only these two leave the context usable. CudaCopyEngine::noted() ends its copies at
  // kUnavailable.
  const Code code = result == kOutOfMemory     ? Code::kResourceExhausted
                    : is_capture_error(result) ? Code::kFailedPrecondition
                                               : Code::kUnavailable;
  return {code, std::string(function) + ": " + name + " (" + std::to_string(result) + ")"};
}

}  // namespace larder::copy::cuda
