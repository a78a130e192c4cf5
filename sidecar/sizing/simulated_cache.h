// SimulatedCache: a cache of fixed size with one eviction policy, which stores names and sizes
// without content. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "shim/base/status.h"

namespace larder::sizing {

class SimulatedCache {
 public:
  virtual ~SimulatedCache() = default;

  // A request begins. The calls until the next begin() are for chunks of the request, in order.
  virtual void begin() {}
  virtual bool has(std::uint64_t chunk) const = 0;
  // `next`: the time of the next use as a growing number, or kNever; only optimal looks at `next`.
  // REQUIRES: has(chunk).
  virtual void use(std::uint64_t chunk, std::uint64_t next) = 0;
  // Evicts other chunks to make room. False: there is no room for this chunk and the rest of the
  // request. REQUIRES: !has(chunk).
  virtual bool insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t next) = 0;

  static constexpr std::uint64_t kNever = UINT64_MAX;
};

// lru and adaptive are larderd's own policies, by prompt. A use of a chunk is a use of the chunks
// before it. Tails leave before heads, and a request evicts none of its own chunks. adaptive runs
// the very class of the store. optimal evicts tails first, too. fifo and s3-fifo do not know
// prompts.
std::span<const std::string_view> policies();

// kInvalidArgument names the policies.
Result<std::unique_ptr<SimulatedCache>> make_cache(std::string_view policy,
                                                   std::uint64_t size_bytes);

}  // namespace larder::sizing
