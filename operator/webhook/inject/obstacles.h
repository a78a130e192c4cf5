// Obstacles to an injection that do not depend on the engine.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// One sentence with reason and remedy; "": no obstacle. REQUIRES: wrong_form(input.pod) is "".
std::string obstacle(const Input& input);

}  // namespace larder::webhook
