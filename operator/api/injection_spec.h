// spec.injection of a CachePool: additions to annotated pods beside the cache. Plain values;
// thread-compatible.
#pragma once

#include <optional>

#include "operator/api/object.h"
#include "operator/api/resource_rules.h"
#include "operator/api/spec_reader.h"

namespace larder::api {

// kAuto: the operator chooses a number, from the namespace's range if the namespace has a range.
// kPlatform: the operator writes no user id, and the platform fills the id in.
enum class UserIdSource { kAuto, kPlatform };

struct InjectionSpec {
  UserIdSource user_ids = UserIdSource::kAuto;
  Object payload_resources;    // for the container larder-payload; null: not given
  Object labels, annotations;  // set if the pod has no entry of the name; null: not given
};

// The first entry of `payload_resources` that a container cannot have.
std::optional<WrongResource> wrong_payload(const InjectionSpec& injection);

// Refuses, through `reader`, values that would make a pod which the API server refuses.
InjectionSpec read_injection(SpecReader& reader);

}  // namespace larder::api
