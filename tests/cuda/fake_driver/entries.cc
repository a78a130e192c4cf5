// The functions that cuGetProcAddress_v2 of libcuda.so.1 finds. Here: devices, contexts, streams,
// events.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/fake_driver/contexts.h"
#include "tests/cuda/fake_driver/device.h"
#include "tests/cuda/fake_driver/entry.h"

namespace larder::fake_cuda {
namespace {

using namespace copy::cuda;

constexpr ResultCode kCaptureIsolation = 905, kCapturedEvent = 907;
constexpr int kLeastPriority = 0;

ResultCode init(unsigned) {
  LARDER_BEGIN("cuInit", false);
  if (const int delay = setting("FAKE_CUDA_DELAY_MS", 0); delay != 0) delay_ms(delay, "copy");
  if (const int nth = setting("FAKE_CUDA_FAIL_COPY", 0); nth != 0)
    fail("copy", nth, kIllegalAddress, true);
  return setting("FAKE_CUDA_DEVICES", 1) == 0 ? kNoDevice : kSuccess;
}

ResultCode device_get_count(int* count) {
  *count = setting("FAKE_CUDA_DEVICES", 1);
  return kSuccess;
}

ResultCode device_get_uuid(DeviceUuid* uuid, int number) {
  *uuid = {};
  uuid->bytes[1] = static_cast<unsigned char>(number);
  uuid->bytes[0] = static_cast<unsigned char>(setting("FAKE_CUDA_UUID", 7));
  uuid->bytes[15] = setting("FAKE_CUDA_MIG", 0) != 0;
  return kSuccess;
}

ResultCode device_get_uuid_whole(DeviceUuid* uuid, int number) {
  device_get_uuid(uuid, number);
  uuid->bytes[15] = 0;
  return kSuccess;
}

ResultCode get_error_name(ResultCode code, const char** name) {
  static const std::map<ResultCode, const char*> names{
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
      {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}};
  const auto at = names.find(code);
  *name = at == names.end() ? nullptr : at->second;
  return at == names.end() ? kInvalidValue : kSuccess;
}

ResultCode pointer_get_attribute(void* value, int attribute, DevicePtr address) {
  LARDER_BEGIN("cuPointerGetAttribute", false);
  if (!device().memory.on_device(address, 1)) return kInvalidValue;
  if (attribute == kPointerMemoryType) *static_cast<unsigned*>(value) = kMemoryTypeDevice;
  const int on = device().memory.device_of(address);
  if (attribute == kPointerContext)
    *static_cast<Handle*>(value) = device().memory.of_a_context(address) ? context_of(on) : nullptr;
  if (attribute == kPointerDeviceOrdinal) *static_cast<int*>(value) = on;
  if (attribute != kPointerBufferId) return kSuccess;
  // Other attributes are answered on any thread.
  if (current_device() < 0) return kInvalidContext;
  *static_cast<std::uint64_t*>(value) = device().memory.where(address)->id;
  return kSuccess;
}

ResultCode device_get(int* number, int ordinal) {
  LARDER_BEGIN("cuDeviceGet", false);
  if (ordinal < 0 || ordinal >= kDevices) return 101;  // CUDA_ERROR_INVALID_DEVICE
  *number = ordinal;
  return kSuccess;
}

ResultCode device_get_attribute(int* value, int attribute, int) {
  LARDER_BEGIN("cuDeviceGetAttribute", false);
  if (attribute == kComputeMode) *value = setting("FAKE_CUDA_COMPUTE_MODE", kComputeModeDefault);
  if (attribute == kComputeMode) return kSuccess;
  if (attribute != kProcessorCount) return kInvalidValue;
  const std::lock_guard lock(device().mutex);
  *value = device().processors;
  return kSuccess;
}

ResultCode ctx_get_device(int* number) {
  LARDER_BEGIN("cuCtxGetDevice");
  *number = current_device();
  return kSuccess;
}

ResultCode device_primary_ctx_retain(Handle* context, int number) {
  LARDER_BEGIN("cuDevicePrimaryCtxRetain", false);
  const std::lock_guard lock(device().mutex);
  ++device().counted.retained;
  ++device().retained[number];
  device().destroyed[number] = false;
  *context = context_of(number);
  return kSuccess;
}

ResultCode device_primary_ctx_release(int number) {
  const std::lock_guard lock(device().mutex);
  --device().counted.retained;
  device().destroyed[number] = --device().retained[number] == 0;
  return kSuccess;
}

// The last release destroys a context, unless an engine of this process allocated memory in it:
// CUDA's runtime then retains the context too.
bool is_destroyed(Handle context) {
  const int on = device_of_context(context);
  const std::lock_guard lock(device().mutex);
  return device().destroyed[on] && !device().used[on];
}

ResultCode ctx_push_current(Handle context) {
  LARDER_BEGIN("cuCtxPushCurrent", false);
  if (is_destroyed(context)) return kInvalidContext;
  push_context(context);
  return kSuccess;
}

// Works after a sticky error too: the thread's stack is not part of the context.
ResultCode ctx_pop_current(Handle* context) {
  *context = pop_context();
  return *context == nullptr ? kInvalidContext : kSuccess;
}

ResultCode ctx_get_stream_priority_range(int* least, int* greatest) {
  LARDER_BEGIN("cuCtxGetStreamPriorityRange");
  *least = kLeastPriority;
  *greatest = -5;
  return kSuccess;
}

ResultCode thread_exchange_stream_capture_mode(int* mode) {
  Captures::exchange_mode(mode);
  return kSuccess;
}

// During another capture the legacy stream has no answer. The question invalidates no capture.
ResultCode stream_is_capturing(Handle stream, int* status) {
  LARDER_BEGIN("cuStreamIsCapturing");
  if (stream == nullptr && captures().any()) return kCaptureImplicit;
  *status = captures().capturing(stream) ? 1 : kNotCapturing;
  return kSuccess;
}

ResultCode stream_create_with_priority(Handle* stream, unsigned flags, int priority) {
  LARDER_BEGIN_UNSAFE("cuStreamCreateWithPriority");
  if (flags != kStreamNonBlocking || priority > kLeastPriority || priority < -5)
    return kInvalidValue;
  *stream = make_stream(current_device());
  const std::lock_guard lock(device().mutex);
  if (priority != kLeastPriority) ++device().counted.other_streams;
  return kSuccess;
}

// The place where an error becomes sticky. As on a GPU, the context's work stops before any caller
// learns of the error. Work that has begun is waited for instead.
ResultCode stream_synchronize(Handle stream) {
  Stream* const of = device().stream(stream);
  if (of == nullptr) return kInvalidHandle;
  if (const ResultCode answer = captures().unordered(); answer != kSuccess) return answer;
  of->wait();
  LARDER_BEGIN("cuStreamSynchronize");
  return device().faults.sticky(of->device());
}

ResultCode stream_destroy(Handle stream) {
  LARDER_BEGIN_GIVING_BACK();
  Device& d = device();
  std::shared_ptr<Stream> gone;
  const std::lock_guard lock(d.mutex);
  const auto at = d.streams.find(stream);
  if (at == d.streams.end()) return kInvalidHandle;
  gone = std::move(at->second);
  d.streams.erase(at);
  return kSuccess;
}

std::shared_ptr<Point> latest(Handle event) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  const auto at = d.events.find(event);
  return at == d.events.end() ? nullptr : at->second->latest;
}

ResultCode stream_wait_event(Handle stream, Handle event, unsigned) {
  LARDER_BEGIN("cuStreamWaitEvent");
  Stream* const of = device().stream(stream);
  if (of == nullptr) return kInvalidHandle;
  if (const std::shared_ptr<Point> point = latest(event)) {
    if (point->captured) return captures().spoil(kCaptureIsolation);
    if (point->of != of) of->add_wait([point] { point->wait(); });
  }
  return kSuccess;
}

ResultCode event_create(Handle* event, unsigned flags) {
  LARDER_BEGIN_UNSAFE("cuEventCreate");
  Device& d = device();
  auto made = std::make_unique<Event>();
  made->blocking = (flags & kEventBlockingSync) != 0;
  made->device = current_device();
  *event = made.get();
  const std::lock_guard lock(d.mutex);
  d.events.emplace(*event, std::move(made));
  return kSuccess;
}

ResultCode event_record(Handle event, Handle stream) {
  LARDER_BEGIN("cuEventRecord");
  Device& d = device();
  Stream* const of = d.stream(stream);
  if (of == nullptr) return kInvalidHandle;
  if (const ResultCode answer = captures().on(stream); answer != kSuccess) return answer;
  auto point = std::make_shared<Point>();
  point->of = of;
  point->captured = captures().capturing(stream);
  {
    const std::lock_guard lock(d.mutex);
    const auto at = d.events.find(event);
    if (at == d.events.end() || at->second->device != of->device()) return kInvalidHandle;
    at->second->latest = point;
  }
  if (!point->captured) of->add([point] { point->reach(); });
  return kSuccess;
}

void count_wait(Handle event) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  ++d.counted.host_waits;
  const auto at = d.events.find(event);
  if (at != d.events.end() && !at->second->blocking) ++d.counted.spinning_waits;
}

ResultCode event_synchronize(Handle event) {
  LARDER_BEGIN_UNSAFE("cuEventSynchronize");
  count_wait(event);
  if (const std::shared_ptr<Point> point = latest(event)) {
    if (point->captured) return captures().spoil(kCapturedEvent);
    if (!point->over()) {
      point->wait();
      device().spend("wake", 0);
    }
  }
  return device().faults.sticky(current_device());
}

ResultCode event_destroy(Handle event) {
  LARDER_BEGIN_GIVING_BACK();
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  return d.events.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

const Entries& entries() {
  static const Entries all{
      {"cuInit", any(init)},
      {"cuGetErrorName", any(get_error_name)},
      {"cuPointerGetAttribute", any(pointer_get_attribute)},
      {"cuDeviceGet", any(device_get)},
      {"cuDevicePrimaryCtxRetain", any(device_primary_ctx_retain)},
      {"cuDevicePrimaryCtxRelease", any(device_primary_ctx_release)},
      {"cuCtxPushCurrent", any(ctx_push_current)},
      {"cuCtxPopCurrent", any(ctx_pop_current)},
      {"cuCtxGetStreamPriorityRange", any(ctx_get_stream_priority_range)},
      {"cuThreadExchangeStreamCaptureMode", any(thread_exchange_stream_capture_mode)},
      {"cuStreamIsCapturing", any(stream_is_capturing)},
      {"cuStreamCreateWithPriority", any(stream_create_with_priority)},
      {"cuStreamDestroy", any(stream_destroy)},
      {"cuStreamSynchronize", any(stream_synchronize)},
      {"cuStreamWaitEvent", any(stream_wait_event)},
      {"cuEventCreate", any(event_create)},
      {"cuEventRecord", any(event_record)},
      {"cuEventSynchronize", any(event_synchronize)},
      {"cuEventDestroy", any(event_destroy)},
      {"cuDeviceGetAttribute", any(device_get_attribute)},
      {"cuCtxGetDevice", any(ctx_get_device)},
      {"cuDeviceGetCount", any(device_get_count)},
      {"cuDeviceGetUuid", any(device_get_uuid)},
  };
  return all;
}

// nullptr: there is no function of this name.
void* entry(const std::string& name) {
  for (const Entries* some : {&entries(), &copy_entries(), &memory_entries(), &sharing_entries()})
    if (const auto at = some->find(name); at != some->end()) return at->second;
  return nullptr;
}

}  // namespace

ResultCode begin(const char* function, bool needs_context) {
  if (const ResultCode ordered = device().faults.next(function, current_device());
      ordered != kSuccess)
    return ordered;
  return needs_context && current_device() < 0 ? kInvalidContext : kSuccess;
}

ResultCode begin_giving_back() {
  return current_device() < 0 && device().faults.sticky(-1) == kSuccess ? kInvalidContext
                                                                        : kSuccess;
}

// Variables: FAKE_CUDA_DEVICES=n (visible devices), FAKE_CUDA_UUID=n (another GPU),
// FAKE_CUDA_MIG=1, FAKE_CUDA_DELAY_MS=n (delay of each copy), FAKE_CUDA_COMPUTE_MODE=n,
// FAKE_CUDA_NO_STAGING=1 (pinned memory only by registration), FAKE_CUDA_FAIL_COPY=n (the nth copy
// ends with a sticky error), FAKE_CUDA_OLD=1 (functions are missing).
int setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace larder::fake_cuda

// The interface of CUDA 12.8 only: a batch of version 13.0 has one parameter fewer.
extern "C" int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t,
                                   int*) {
  void* const entry = larder::fake_cuda::entry(name);
  if (entry == nullptr || version > 12080) return larder::copy::cuda::kNotFound;
  if (larder::fake_cuda::setting("FAKE_CUDA_OLD", 0) != 0 && std::strcmp(name, "cuMemMap") == 0)
    return larder::copy::cuda::kNotFound;
  // The only function that is requested in two versions.
  if (std::strcmp(name, "cuDeviceGetUuid") == 0 && version < 11040) {
    *function = larder::fake_cuda::any(larder::fake_cuda::device_get_uuid_whole);
    return larder::copy::cuda::kSuccess;
  }
  *function = entry;
  return larder::copy::cuda::kSuccess;
}

// Found by name only, for benchmarks: the product measures no time by events.
extern "C" int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  namespace fake = larder::fake_cuda;
  const auto reached = [](const std::shared_ptr<fake::Point>& point) {
    return point != nullptr && point->over();
  };
  const std::shared_ptr<fake::Point> first = fake::latest(start), last = fake::latest(end);
  if (!reached(first) || !reached(last)) return larder::copy::cuda::kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(last->when - first->when).count();
  return larder::copy::cuda::kSuccess;
}
