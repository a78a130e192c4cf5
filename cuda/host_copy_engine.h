// HostCopyEngine: the CopyEngine for host memory, over one inner loop of host_loop.h.
//
// Thread-safe: the loop is the only member. Products call host_copy_engine() (copy_engine.h). The
// conformance suite and the benchmark make this class for each loop that the processor can run.
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
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const PieceList& to) const override;
  Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes,
                    const Fence* after) const override;

 private:
  const HostLoop& loop_;
};

// The loops that this processor can run, the fastest first. The portable loop is always last.
std::vector<const HostLoop*> host_loops();

}  // namespace larder::copy
