#include "shim/capi/engine.h"

namespace larder::capi {

const copy::CopyEngine& copy_engine() {
  return copy::host_copy_engine();
}

}  // namespace larder::capi
