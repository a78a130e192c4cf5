// A recorded trace through a cache of one size and policy, exactly: what would have been found. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::sizing {

// A prompt that was looked up: its chunks in order. Equal names are equal prefixes up to and with that chunk.
struct TracedRequest {
  std::vector<std::uint64_t> chunks;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t tokens = 0;        // asked for, with those that no chunk stands for
  std::uint64_t chunk_tokens = 0;  // at most, of one chunk; the last one of a request may have fewer

  // Of the first `count` chunks.
  std::uint64_t tokens_of(std::size_t count) const { return std::min<std::uint64_t>(count * chunk_tokens, tokens); }
};

struct Simulated {
  std::uint64_t chunks = 0, chunks_hit = 0;
  std::uint64_t tokens = 0, tokens_hit = 0;
  std::uint64_t requests = 0, requests_hit = 0;

  double hit_ratio() const { return tokens == 0 ? 0 : static_cast<double>(tokens_hit) / static_cast<double>(tokens); }
};

// Each request finds its chunks up to the first that is missing, and stores the others.
// kInvalidArgument: there is no such policy.
Result<Simulated> simulate(std::span<const TracedRequest> trace, std::string_view policy, std::uint64_t size_bytes);

// Bytes that all chunks of the trace take: more memory finds no more.
std::uint64_t distinct_bytes(std::span<const TracedRequest> trace);

}  // namespace larder::sizing
