#include "shim/capi/engine.h"

namespace larder::capi {

copy::CopyEngines copy_engines() {
  return copy::host_copy_engine();
}

}  // namespace larder::capi
