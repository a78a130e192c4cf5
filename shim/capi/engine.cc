#include "shim/capi/engine.h"

namespace larder::capi {

// The one place where the product and liblarder_test.so differ: the link takes this file or
// engine_test_hooks.cc.
copy::CopyEngines copy_engines() {
  return copy::host_copy_engine();
}

}  // namespace larder::capi
