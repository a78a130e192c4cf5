// Options for a tier in a test whose servers never stand still: a busy machine may stop for
// seconds, which must fail no test.
#pragma once

#include "sidecar/tiers/remote/options.h"

namespace larder::test {

inline remote::RemoteOptions patient(remote::RemoteOptions options) {
  options.connect_ms = options.greet_ms = options.answer_ms = 10'000;
  return options;
}

}  // namespace larder::test
