// Whether an object has all of what is wanted of it. What else stands in it belongs to others and counts for nothing. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "operator/api/object.h"

namespace larder::reconcile {

// Where `live` first differs from `wanted` ("spec.template.spec.containers[larder].image"); nothing: it has all of it.
//
// As the API server would see it: lists of things with a name merge by it and may hold more; other lists are compared whole; an empty
// map or list is none; quantities are equal by value ("1024Mi", "1Gi"), where quantities stand.
std::optional<std::string> first_difference(const api::Object& live, const api::Object& wanted);

}  // namespace larder::reconcile
