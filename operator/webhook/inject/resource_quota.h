// ResourceQuotas of a namespace, applied like the admission plugin ResourceQuota.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Adds a cpu limit to an added container if a quota of `pod` counts cpu limits. Such a quota
// refuses a pod with a container that has none.
void fit_quotas(api::Object& container, const api::Object& pod, const Surroundings& surroundings);

// The ResourceQuota that refuses `after` and admits input.pod, with figures, as "ResourceQuota NAME
// ..."; "": none. REQUIRES: both have the form of a pod.
std::string refused_by_quota(const Input& input, const api::Object& after);

}  // namespace larder::webhook
