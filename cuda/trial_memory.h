// TrialMemory: device pages and a slot in pinned memory for trial copies. No engine uses this
// memory.
//
// Owned by one thread. REQUIRES of make() and the destructor: the context is current. REQUIRES of
// the destructor: all trial copies have ended.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/pinned_buffer.h"

namespace larder::copy::cuda {

class TrialMemory {
 public:
  // Makes `bytes` bytes of each, rounded up to the largest piece of a StrategyTable. `context`
  // outlives the result.
  static Result<std::unique_ptr<TrialMemory>> make(const DeviceContext& context, std::size_t bytes);
  ~TrialMemory();
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;

  // All pages as pieces of that size, in an order like a block table's. Valid until the next call.
  PieceList pieces(std::uint64_t piece_bytes);
  // Memory for the digests of such a list. Valid until the next call.
  std::span<std::uint64_t> table(const PieceList& list);
  std::span<std::byte> slot() const { return {slot_.data<std::byte>(), bytes_}; }
  DeviceRange slot_on_device() const { return slot_.range(bytes_); }

 private:
  TrialMemory(const DeviceContext& context, std::size_t bytes)
      : driver_(context.driver()), bytes_(bytes), slot_(context) {}
  const Driver& driver_;
  const std::size_t bytes_;
  PinnedBuffer slot_;
  DevicePtr pages_ = 0;
  std::vector<std::byte*> pieces_;
  std::vector<std::uint64_t> table_;
};

}  // namespace larder::copy::cuda
