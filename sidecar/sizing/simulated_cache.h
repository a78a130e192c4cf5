// SimulatedCache: a cache of so many bytes that knows names and sizes alone, under one eviction policy. Thread-compatible.
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

  virtual bool has(std::uint64_t chunk) const = 0;
  // REQUIRES: it has it. `next`: when it is used next, as a number that grows with time; kNever. Only optimal looks at it.
  virtual void use(std::uint64_t chunk, std::uint64_t next) = 0;
  // Evicts for it; one that is larger than the cache is left out. REQUIRES: it does not have it.
  virtual void insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t next) = 0;

  static constexpr std::uint64_t kNever = UINT64_MAX;
};

// lru, fifo, s3-fifo, optimal.
std::span<const std::string_view> policies();

// kInvalidArgument names the policies.
Result<std::unique_ptr<SimulatedCache>> make_cache(std::string_view policy, std::uint64_t size_bytes);

}  // namespace larder::sizing
