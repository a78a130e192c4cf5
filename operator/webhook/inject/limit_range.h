// LimitRanges of a namespace, applied like the admission plugin LimitRanger: fits the added
// containers, and finds a refusal in advance.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Changes requests and limits of an added container to fit the namespace: raises values to a
// minimum or a ratio, adds a limit for a maximum or a default, and lowers processors to a maximum
// unless `wanted` (the user's resources, or null) has processors.
void fit_limit_ranges(api::Object& container, const api::Object& wanted,
                      const Surroundings& surroundings);

// The LimitRange that refuses `after` and admits `before`, with figures, as "LimitRange NAME ...";
// "": none. REQUIRES: both have the form of a pod.
std::string refused_by_limit_range(const api::Object& before, const api::Object& after,
                                   const Surroundings& surroundings);

}  // namespace larder::webhook
