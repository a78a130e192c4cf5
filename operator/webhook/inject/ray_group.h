// Whether a pod belongs to a group of pods that run one engine over Ray.
//
// vLLM makes its connector in every worker. Ray starts workers in other pods, which have neither
// Larder's package nor a larderd, and the engine would not start. So no pod of such a group gets a
// cache. Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::webhook {

// One sentence with reason and remedy, the same for every pod of a group. "": no sign of Ray.
std::string ray_group(const api::Object& pod);

}  // namespace larder::webhook
