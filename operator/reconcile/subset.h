// Whether an object has all wanted fields. Other fields belong to other writers and do not count.
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "operator/api/object.h"

namespace larder::reconcile {

// The path of the first difference ("spec.template.spec.containers[larder].image"); empty: `live`
// has all of `wanted`.
//
// The comparison follows the API server. Lists with a merge key may have more items; other lists
// must be equal. An empty map or list equals a missing one. Quantities are equal by value
// ("1024Mi", "1Gi") in fields for quantities.
std::optional<std::string> first_difference(const api::Object& live, const api::Object& wanted);

}  // namespace larder::reconcile
