// The difference of two JSON values as a small patch (RFC 6902). An array that only grew gets
// `add`s and no replacement.
//
// Pure; thread-safe; never throws. For all values, the patch diff(before, after) turns `before`
// into `after`.
#pragma once

#include "operator/api/object.h"

namespace larder::webhook {

api::Object diff(const api::Object& before, const api::Object& after);

}  // namespace larder::webhook
