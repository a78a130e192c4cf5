// The promises of every injection, for any pod: for random pods and for the fuzzer.
#pragma once

#include <string>

#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {

// "" where all is kept; else which promise is not.
std::string broken_promise(const InjectionCase& one);

}  // namespace larder::test
