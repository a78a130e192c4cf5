// The primary context of each device, and the contexts that a thread has pushed. Thread-safe.
#pragma once

#include "cuda/driver_abi.h"

namespace larder::fake_cuda {

copy::cuda::Handle context_of(int device);
// Of the context that is current on this thread; -1: none is.
int current_device();
// REQUIRES: context_of() gave it.
int device_of_context(copy::cuda::Handle context);
void push_context(copy::cuda::Handle context);
// nullptr: there is none.
copy::cuda::Handle pop_context();

}  // namespace larder::fake_cuda
