// Whether an object has the form of a pod. All later code relies on the form.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::webhook {

// "": metadata, spec and all used fields have the types of the API server (null counts as absent).
// Otherwise the path of the first wrong field.
std::string wrong_form(const api::Object& pod);

// parent[key] as an array or object; creates a missing one. REQUIRES: wrong_form() is "".
api::Object& list_in(api::Object& parent, const char* key);
api::Object& map_in(api::Object& parent, const char* key);

// Whether `list` is an array that holds `value`.
bool lists(const api::Object& list, const api::Object& value);

}  // namespace larder::webhook
