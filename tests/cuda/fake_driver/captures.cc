#include "tests/cuda/fake_driver/captures.h"

#include <utility>

#include "tests/cuda/fake_driver/fake_driver.h"

namespace larder::fake_cuda {
namespace {

using copy::cuda::ResultCode;

constexpr int kGlobal = 0;
constexpr ResultCode kCaptureUnsupported = 900;
thread_local int mode_of_thread = kGlobal;

}  // namespace

Captures& captures() {
  static Captures* const the = new Captures;
  return *the;
}

void Captures::exchange_mode(int* mode) {
  std::swap(mode_of_thread, *mode);
}

void Captures::begin(void* stream) {
  const std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

bool Captures::end(void* stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  return spoilt_.erase(stream) == 0;
}

bool Captures::capturing(void* stream) const {
  const std::lock_guard lock(mutex_);
  return streams_.contains(stream);
}

bool Captures::any() const {
  const std::lock_guard lock(mutex_);
  return !streams_.empty();
}

ResultCode Captures::spoil(ResultCode answer) {
  const std::lock_guard lock(mutex_);
  spoilt_ = streams_;
  return answer;
}

ResultCode Captures::unordered() {
  if (mode_of_thread == copy::cuda::kCaptureRelaxed || !any()) return copy::cuda::kSuccess;
  return spoil(kCaptureUnsupported);
}

// Streams of an engine, as from fake_cuda::make_stream(), block the legacy stream; Larder's streams
// do not.
ResultCode Captures::on(void* stream) {
  return stream == nullptr && any() ? spoil(copy::cuda::kCaptureImplicit) : copy::cuda::kSuccess;
}

void Captures::forget() {
  const std::lock_guard lock(mutex_);
  streams_.clear();
  spoilt_.clear();
}

void begin_capture(void* stream) {
  captures().begin(stream);
}

bool end_capture(void* stream) {
  return captures().end(stream);
}

}  // namespace larder::fake_cuda

// Found by name, for the engine of gpu_test. The graph is empty.
extern "C" int cuStreamBeginCapture_v2(void* stream, int mode) {
  if (mode != larder::fake_cuda::kGlobal) return larder::copy::cuda::kNotSupported;
  larder::fake_cuda::begin_capture(stream);
  return larder::copy::cuda::kSuccess;
}

extern "C" int cuStreamEndCapture(void* stream, void** graph) {
  constexpr int kCaptureInvalidated = 901;
  *graph = nullptr;
  return larder::fake_cuda::end_capture(stream) ? larder::copy::cuda::kSuccess
                                                : kCaptureInvalidated;
}
