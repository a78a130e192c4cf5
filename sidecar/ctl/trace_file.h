// Recorded traces: one JSON object a line and request. Reads Mooncake's format and what `larderctl trace` writes, which is that with
// four members more. Thread-safe.
//
//   timestamp      ms; files are merged by it
//   input_length   tokens asked for
//   output_length  of no account here
//   hash_ids       a number for each block of the prompt, in order; equal ones are equal prefixes up to and with that block
//   block_tokens   that a block stands for; Mooncake's have kMooncakeBlockTokens
//   block_bytes    that a block takes in memory; where it is missing, the reader must be told
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

// "-" is standard input. `block_bytes`: of blocks of which the trace does not tell; 0: then there is an error. Errors name file and line.
Result<std::vector<sizing::TracedRequest>> read_traces(std::span<const std::string> files, std::uint64_t block_bytes);

}  // namespace larder::ctl
