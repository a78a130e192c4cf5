// torch's allocator with expandable_segments, with which vLLM refuses every connector.
//
// Pure; thread-safe; never throws.
#pragma once

#include <cstddef>
#include <string>

#include "operator/api/object.h"

namespace larder::webhook {

// Why the container's engine may have the allocator, from its variables, words and script
// (argv_of()[script], or CommandShape::kNoScript), and the remedy; "": no sign. A variable of
// torch from an unread ConfigMap or a Secret counts as one that may have it, and so does an unread
// envFrom with a prefix of these variables. An unread envFrom without a prefix is no sign: if it
// holds the variable, the payload's plug-in switches expandable_segments off (shim/python/larder).
std::string moving_memory(const api::Object& container, std::size_t script);

}  // namespace larder::webhook
