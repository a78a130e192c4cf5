// The copy engine of this library: the host's, or in liblarder_test.so one that can be told to verify nothing.
#pragma once

#include "cuda/copy_engine.h"

namespace larder::capi {

// Thread-safe; static lifetime.
const copy::CopyEngine& copy_engine();

}  // namespace larder::capi
