// The traces of `make bench-eviction`, each by a seed, of chunks of one byte. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sidecar/sizing/simulation.h"

namespace larder::bench {

struct EvictionTrace {
  std::string name;
  std::vector<sizing::TracedRequest> requests;
  std::vector<bool> once;  // by request: its prompt comes by once, as part of a flood
  std::string calm;        // the trace without the flood; "": this is no flood
};

inline constexpr std::uint64_t kEvictionChunkTokens = 512;

// Chats, documents of unequal popularity, floods of one-time prompts, a working set that shifts,
// loops, and agents. `chunks`: about so many chunks asked for in each.
std::vector<EvictionTrace> eviction_traces(std::uint64_t seed, std::uint64_t chunks);

}  // namespace larder::bench
