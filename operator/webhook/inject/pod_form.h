// Whether an object has the form of a pod, so that all that follows may rely on it.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::webhook {

// "" where metadata, spec and what is read or changed in them have the types that the API server gives them (null counts as absent);
// else the path of what has not.
std::string wrong_form(const api::Object& pod);

// parent[key] as an array or object, made where there is none. REQUIRES: wrong_form() found nothing.
api::Object& list_in(api::Object& parent, const char* key);
api::Object& map_in(api::Object& parent, const char* key);

}  // namespace larder::webhook
