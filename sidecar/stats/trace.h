// Recorded requests for `larderctl trace`: hashes and counts, never tokens. Plain data;
// thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace larder::stats {

struct AskedRequest {
  std::uint64_t at_ms = 0;  // by the clock of larderd
  std::string model;        // served name
  std::uint64_t tokens = 0, tokens_hit = 0;
  std::uint64_t chunk_tokens = 0, chunk_bytes = 0;
  std::vector<std::uint64_t> chunks;  // a number for each chunk, in order; equal in every larderd
};

struct TracePage {
  std::uint64_t now_ms = 0;
  std::uint64_t next = 0;  // the number to ask for next
  std::uint64_t lost = 0;  // requests after `from` that are gone already
  std::vector<AskedRequest> requests;
};

}  // namespace larder::stats
