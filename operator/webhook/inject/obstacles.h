// What about a pod or its pool stands against an injection, whatever its engine is.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// "" where nothing does; else one sentence: why, and what to do. REQUIRES: wrong_form(input.pod) found nothing.
std::string obstacle(const Input& input);

}  // namespace larder::webhook
