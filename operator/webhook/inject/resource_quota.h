// ResourceQuotas of a namespace, as the admission plugin of that name applies them.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Gives one of our containers a limit of processors where a quota of `pod` counts those: it refuses a pod that has a container without.
void fit_quotas(api::Object& container, const api::Object& pod, const Surroundings& surroundings);

// Which ResourceQuota refuses `after` because of us, with object and figures, as "ResourceQuota NAME ..."; "": none does. A pod that is
// refused without a cache too is not our case. REQUIRES: both have the form of a pod.
std::string refused_by_quota(const api::Object& before, const api::Object& after, const Surroundings& surroundings);

}  // namespace larder::webhook
