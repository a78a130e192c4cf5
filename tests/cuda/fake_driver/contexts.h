// The primary context of each device, and the stack of contexts of each thread. Thread-safe.
#pragma once

#include "cuda/driver_abi.h"

namespace larder::fake_cuda {

copy::cuda::Handle context_of(int device);
// The device of the current context of this thread. -1: no context is current.
int current_device();
// REQUIRES: the handle came from context_of().
int device_of_context(copy::cuda::Handle context);
void push_context(copy::cuda::Handle context);
// nullptr: no context is current.
copy::cuda::Handle pop_context();

}  // namespace larder::fake_cuda
