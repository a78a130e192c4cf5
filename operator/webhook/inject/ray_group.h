// Whether a pod is of a group of pods that run one engine over Ray.
//
// vLLM makes its connector in every worker. Ray starts those in other pods, which have neither
// Larder's package nor a larderd, so that the engine would not start: the whole group is left
// alone. Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::webhook {

// One sentence, the same for every pod of a group: why it is left alone and what to do. "" where
// Ray is not seen.
std::string ray_group(const api::Object& pod);

}  // namespace larder::webhook
