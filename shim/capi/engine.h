// The copy engines of this library: the product's, or in liblarder_test.so engines that can skip
// the verification.
#pragma once

#include "cuda/copy_engine.h"

namespace larder::capi {

// Thread-safe.
copy::CopyEngines copy_engines();

}  // namespace larder::capi
