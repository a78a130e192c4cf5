// Options for a tier in whose test no server ever stands still: a busy machine may, for seconds, and that is nothing to fail for.
#pragma once

#include "sidecar/tiers/remote/options.h"

namespace larder::test {

inline remote::RemoteOptions patient(remote::RemoteOptions options) {
  options.connect_ms = options.greet_ms = options.answer_ms = 10'000;
  return options;
}

}  // namespace larder::test
