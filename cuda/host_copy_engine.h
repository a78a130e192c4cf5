// HostCopyEngine: the CopyEngine of plain memory, over one of the inner loops of host_loop.h.
//
// Thread-safe: it holds nothing but the loop. Products take host_copy_engine() (copy_engine.h); this class is for those that choose
// the loop themselves: the conformance suite runs all that the processor has, the benchmark compares them.
#pragma once

#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/host_loop.h"

namespace larder::copy {

class HostCopyEngine final : public CopyEngine {
 public:
  explicit HostCopyEngine(const HostLoop& loop) : loop_(loop) {}
  const char* name() const override { return loop_.name; }
  Result<std::uint64_t> store(const PieceList& from, std::span<std::byte> slot) const override;
  Status load(std::span<const std::byte> slot, std::uint64_t root, const PieceList& to) const override;
  Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes, const Fence* after) const override;

 private:
  const HostLoop& loop_;
};

// The loops that this processor can run, the fastest first; the portable one is always last.
std::vector<const HostLoop*> host_loops();

}  // namespace larder::copy
