#include "cuda/device_context.h"

#include <chrono>
#include <thread>

namespace larder::copy::cuda {

Result<ContextPtr> DeviceContext::of(const void* page) {
  const Result<const Driver*> found = Driver::find();
  if (!found.ok()) {
    // An engine on CPUs never loads libcuda.so.1, so its pages cannot be on a device.
    if (found.status().code() == Code::kUnavailable)
      return Status(Code::kNotFound, found.status().text());
    return found.status();
  }
  const Driver& driver = **found;
  const auto address = reinterpret_cast<DevicePtr>(page);
  unsigned type = 0;
  const ResultCode known = driver->pointer_get_attribute(&type, kPointerMemoryType, address);
  // CUDA's answers for memory unknown to CUDA, and before any initialisation.
  const bool unknown = known == kInvalidValue || known == kNotInitialized;
  if (unknown || (known == kSuccess && type != kMemoryTypeDevice))
    return Status(Code::kNotFound, "the page lies on no CUDA device");
  if (known != kSuccess) return driver.status(known, "cuPointerGetAttribute");
  Handle context = nullptr;
  if (driver->pointer_get_attribute(&context, kPointerContext, address) == kSuccess &&
      context != nullptr)
    return ContextPtr(new DeviceContext(driver, context, std::nullopt));
  int ordinal = 0;
  if (Status status =
          driver.status(driver->pointer_get_attribute(&ordinal, kPointerDeviceOrdinal, address),
                        "cuPointerGetAttribute");
      !status.ok())
    return status;
  // PyTorch, and so vLLM, works in the primary context of a device.
  return primary(driver, ordinal);
}

Result<ContextPtr> DeviceContext::primary(const Driver& driver, int ordinal) {
  int device = 0;
  Handle context = nullptr;
  if (Status status = driver.status(driver->device_get(&device, ordinal), "cuDeviceGet");
      !status.ok())
    return status;
  if (Status status = driver.status(driver->device_primary_ctx_retain(&context, device),
                                    "cuDevicePrimaryCtxRetain");
      !status.ok())
    return status;
  return ContextPtr(new DeviceContext(driver, context, device));
}

DeviceContext::~DeviceContext() {
  // The driver counts: the context ends with the last release. A context from a pointer belongs to
  // the engine.
  if (retained_) driver_->device_primary_ctx_release(*retained_);
}

Status make_stream(const Driver& driver, Handle& stream) {
  int least = 0, greatest = 0;
  if (Status status = driver.status(driver->ctx_get_stream_priority_range(&least, &greatest),
                                    "cuCtxGetStreamPriorityRange");
      !status.ok())
    return status;
  return driver.status(driver->stream_create_with_priority(&stream, kStreamNonBlocking, least),
                       "cuStreamCreateWithPriority");
}

void await_stream(const Driver& driver, Handle stream) {
  // The refusal ends with the capture of a graph on another thread.
  while (is_capture_error(driver->stream_synchronize(stream)))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace larder::copy::cuda
