// The difference of two JSON values as a patch (RFC 6902), small: an array that only grew gets `add`s, not a new array.
//
// Pure; thread-safe; never throws. Applying diff(before, after) to `before` gives `after`, whatever the two are.
#pragma once

#include "operator/api/object.h"

namespace larder::webhook {

api::Object diff(const api::Object& before, const api::Object& after);

}  // namespace larder::webhook
