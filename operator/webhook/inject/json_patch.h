// The difference of two JSON values as a small patch (RFC 6902). An array that only grew gets
// `add`s and no replacement.
//
// Pure; thread-safe; never throws. Applying diff(before, after) to `before` gives `after`, whatever the two are.
#pragma once

#include "operator/api/object.h"

namespace larder::webhook {

api::Object diff(const api::Object& before, const api::Object& after);

}  // namespace larder::webhook
