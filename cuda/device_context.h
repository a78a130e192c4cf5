// DeviceContext: the CUDA context of the engine's KV pages. All objects made in the context share
// it. Thread-safe; immutable.
#pragma once

#include <memory>
#include <optional>

#include "cuda/driver.h"

namespace larder::copy::cuda {

class DeviceContext {
 public:
  // The context in which `page` was allocated. Memory that was mapped by hand, as for engines that
  // sleep, has no context; the result is then the primary context of the device. kNotFound: the
  // page lies on no device, or this process has no CUDA.
  static Result<std::shared_ptr<const DeviceContext>> of(const void* page);
  // The primary context of the device with this number in this process.
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
  // The device whose primary context this object keeps alive.
  const std::optional<int> retained_;
};

// Makes a stream with the least priority in the current context, because the engine's work comes
// first. The least priority is also the default of CUDA and the priority of PyTorch's streams.
// Beside such streams a running kernel of Larder keeps its few multiprocessors until the kernel
// ends.
Status make_stream(const Driver& driver, Handle& stream);

// Waits until the stream is idle, for callers without a usable event. After an error earlier work
// may still run, unless the context is lost. A refusal during the capture of a graph leaves the
// work running, so the call is repeated.
void await_stream(const Driver& driver, Handle stream);

using ContextPtr = std::shared_ptr<const DeviceContext>;

}  // namespace larder::copy::cuda
