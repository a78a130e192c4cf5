// The copy engine of this library: the host's, or in liblarder_test.so an engine that can skip the
// verification.
#pragma once

#include "cuda/copy_engine.h"

namespace larder::capi {

// Thread-safe; static lifetime.
const copy::CopyEngine& copy_engine();

}  // namespace larder::capi
