// Runs a recorded trace through a cache of one size and policy, and counts the hits exactly. Pure;
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/sizing/simulated_cache.h"

namespace larder::sizing {

// One prompt that an engine looked up, as its chunks in order. Chunks have equal names exactly when
// the prefixes up to the end of the chunk are equal.
struct TracedRequest {
  std::vector<std::uint64_t> chunks;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t tokens = 0;        // of the prompt, tokens outside of any chunk included
  std::uint64_t chunk_tokens = 0;  // of one chunk; the last chunk of a request may have fewer

  // The tokens of the first `count` chunks.
  std::uint64_t tokens_of(std::size_t count) const {
    return std::min<std::uint64_t>(count * chunk_tokens, tokens);
  }
};

struct Simulated {
  std::uint64_t chunks = 0, chunks_hit = 0;
  std::uint64_t tokens = 0, tokens_hit = 0;
  std::uint64_t requests = 0, requests_hit = 0;

  double hit_ratio() const {
    return tokens == 0 ? 0 : static_cast<double>(tokens_hit) / static_cast<double>(tokens);
  }
};

// Each request hits its chunks up to the first missing chunk, and stores the others. The first
// `warm_up` requests fill the cache, and are not counted. kInvalidArgument: unknown policy.
Result<Simulated> simulate(std::span<const TracedRequest> trace, std::string_view policy,
                           std::uint64_t size_bytes, std::size_t warm_up = 0);

// As simulate(), through a cache of the caller. Calls seen(request, hit) with the number of each
// request and of its chunks that hit.
void replay(std::span<const TracedRequest> trace, SimulatedCache& cache,
            const std::function<void(std::size_t request, std::size_t hit)>& seen);

// The bytes of all distinct chunks of the trace. More memory gives no more hits.
std::uint64_t distinct_bytes(std::span<const TracedRequest> trace);

}  // namespace larder::sizing
