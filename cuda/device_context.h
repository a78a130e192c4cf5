// DeviceContext: the CUDA context that the engine's KV pages belong to. Shared by all that made something in it. Thread-safe; immutable.
#pragma once

#include <memory>
#include <optional>

#include "cuda/driver.h"

namespace larder::copy::cuda {

class DeviceContext {
 public:
  // The context in which `page` was allocated, or its device's primary one where it is of no context (memory that was mapped by hand, as
  // for engines that sleep). kNotFound: it lies on no device, or this process has no CUDA.
  static Result<std::shared_ptr<const DeviceContext>> of(const void* page);
  // The primary one of a device by its number in this process.
  static Result<std::shared_ptr<const DeviceContext>> primary(const Driver& driver, int ordinal);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const Driver& driver() const { return driver_; }
  Handle handle() const { return handle_; }

 private:
  DeviceContext(const Driver& driver, Handle handle, std::optional<int> retained)
      : driver_(driver), handle_(handle), retained_(retained) {}

  const Driver& driver_;
  const Handle handle_;
  const std::optional<int> retained_;  // the device whose primary context is kept alive by this
};

// A stream for our work in the current context. The engine's work comes first: ours has the least priority that there is. That is also the default, so that
// beside an engine whose streams have that one, as PyTorch's, a kernel of ours that has begun keeps its few multiprocessors until it ends.
Status make_stream(const Driver& driver, Handle& stream);

// Until nothing of the stream is under way, where no event can tell: an error that was told may leave earlier work running, unless the context is lost, and
// then there is none. Refused only because somebody captures a graph, that work goes on, and it is asked again.
void await_stream(const Driver& driver, Handle stream);

using ContextPtr = std::shared_ptr<const DeviceContext>;

}  // namespace larder::copy::cuda
