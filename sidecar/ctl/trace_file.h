// Recorded traces: one JSON object a line, for one request. Reads the format of Mooncake, and the
// format of `larderctl trace`: the same with four further members. Thread-safe.
//
//   timestamp      ms; files are merged by timestamp
//   input_length   tokens of the prompt
//   output_length  ignored
//   hash_ids       a number for each block of the prompt, in order; equal numbers: equal prefixes
//   block_tokens   tokens of a block; missing in Mooncake's format: kMooncakeBlockTokens
//   block_bytes    bytes of a block in memory; if missing, the caller must give them
//   hit_length     tokens that larderd had
//   model          served name
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/sizing/simulation.h"

namespace larder::ctl {

inline constexpr std::uint64_t kMooncakeBlockTokens = 512;
inline constexpr std::size_t kMaxTraceLine = 16u << 20;   // bytes
inline constexpr std::size_t kMaxTraceBlocks = 1u << 27;  // of all files: 1 GiB of memory

// "-" is standard input. `block_bytes`: the size of blocks without block_bytes; 0: such a block is
// an error. Errors name file and line.
Result<std::vector<sizing::TracedRequest>> read_traces(std::span<const std::string> files,
                                                       std::uint64_t block_bytes);

}  // namespace larder::ctl
