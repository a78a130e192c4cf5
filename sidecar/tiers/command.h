// Command and Outcome: the values that a tier exchanges with its engine. Plain data without
// invariants; thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sidecar/tiers/tier.h"

namespace larder::tiers {

struct Command {
  enum class Kind : std::uint8_t { kOperation, kForget, kEvict };  // the last two: no message
  Kind kind = Kind::kOperation;
  Operation operation = Operation::kPut;
  Ticket ticket = 0;
  ChunkKey key;  // drop: only the namespace
  ChunkFacts facts;
  std::span<std::byte> slot;
  std::uint64_t deadline_ns = 0;
  std::vector<ChunkKey> keys = {};  // of a probe
};

struct Outcome {
  Message message;
  std::uint64_t freed_bytes = 0;  // accepted bytes that are free again
  // An accepted operation is free again; false: kReleased will free the operation.
  bool freed = true;
};

}  // namespace larder::tiers
