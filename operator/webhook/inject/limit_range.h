// LimitRanges of a namespace, as the admission plugin LimitRanger applies them: containers of ours are made to fit, and a pod that would
// be refused for them is named before.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Changes requests and limits of one of our containers so that its namespace takes it: up to a minimum or a ratio; a limit where a maximum
// or a default asks for one; processors down to a maximum, unless `wanted` (the user's own resources, or null) names them.
void fit_limit_ranges(api::Object& container, const api::Object& wanted, const Surroundings& surroundings);

// Which LimitRange refuses `after` because of us, with object and figures, as "LimitRange NAME ..."; "": none does. A pod that is refused
// without a cache too is not our case. REQUIRES: both have the form of a pod.
std::string refused_by_limit_range(const api::Object& before, const api::Object& after, const Surroundings& surroundings);

}  // namespace larder::webhook
