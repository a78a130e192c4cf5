// The look-ups of an engine while its larderd serves a peer at full rate.
#pragma once

namespace larder::bench {

struct OwnLookups {
  double alone_p99_us = 0, serving_p99_us = 0;
  double served_gb_s = 0;  // to the peer meanwhile
};

// A look-up is for 64 chunks of 2 MiB. The engine's thread has processor 0 to itself; both larderd
// and the peer's engine share the others, as on a node whose network is as fast as they are. Rounds
// with and without the peer take turns.
//
// REQUIRES: no other thread in this process. Throws std::runtime_error.
OwnLookups measure_own_lookups();

}  // namespace larder::bench
