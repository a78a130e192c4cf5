// What is recorded of requests for `larderctl trace`: hashes and counts, never tokens. Plain data; thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace larder::stats {

struct AskedRequest {
  std::uint64_t at_ms = 0;  // by larderd's own clock
  std::string model;        // served name
  std::uint64_t tokens = 0, tokens_hit = 0;
  std::uint64_t chunk_tokens = 0, chunk_bytes = 0;
  std::vector<std::uint64_t> chunks;  // a number for each, in order, the same in every larderd
};

struct TracePage {
  std::uint64_t now_ms = 0;
  std::uint64_t next = 0;  // what to ask for next
  std::uint64_t lost = 0;  // requests that came and went since what was asked for
  std::vector<AskedRequest> requests;
};

}  // namespace larder::stats
