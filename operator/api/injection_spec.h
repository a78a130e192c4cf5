// spec.injection of a CachePool: what annotated pods are given beside the cache. Plain values; thread-compatible.
#pragma once

#include <optional>

#include "operator/api/object.h"
#include "operator/api/resource_rules.h"
#include "operator/api/spec_reader.h"

namespace larder::api {

// kAuto: a number that the operator chooses, of the namespace's range where the namespace has one. kPlatform: none, the platform writes it.
enum class UserIdSource { kAuto, kPlatform };

struct InjectionSpec {
  UserIdSource user_ids = UserIdSource::kAuto;
  Object payload_resources;    // of the container larder-payload; null where not given
  Object labels, annotations;  // of the pod, where it has none of that name; null where not given
};

// The first of `payload_resources` that the container larder-payload cannot have.
std::optional<WrongResource> wrong_payload(const InjectionSpec& injection);

// Notes in `reader` what would make a pod that the API server refuses.
InjectionSpec read_injection(SpecReader& reader);

}  // namespace larder::api
