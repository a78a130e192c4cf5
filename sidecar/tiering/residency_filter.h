// ResidencyFilter: the writer of the residency region (shim/protocol/residency_layout.h), which
// shows engines the content and the speed of a tier.
//
// The thread of the tier calls the methods of tiers::Residents, the thread of the loop calls the
// others; recent() may be called from any thread. Shared by the loop and the tier, whose thread may
// outlive the loop.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "shim/base/fd.h"
#include "shim/protocol/residency_layout.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

class ResidencyFilter final : public tiers::Residents {
 public:
  // Sizes the filter for a tier of `tier_bytes`: at most half full with chunks of 64 KiB.
  static Result<std::shared_ptr<ResidencyFilter>> create(std::uint64_t tier_bytes);

  void added(const tiers::ChunkKey& key) override { added_all({&key, 1}); }
  void added_all(std::span<const tiers::ChunkKey> keys) override;
  void removed(const tiers::ChunkKey& key) override;
  void removed_all() override;

  void publish(const protocol::ResidencySpeed& speed);
  // One of the chunks that were added last, another one each time. The chunk may be gone.
  std::optional<tiers::ChunkKey> recent();

  // Memory for a read whose bytes are discarded, aligned like slots; empty if the allocation fails.
  // Kept here because this object lives as long as the thread of the tier. REQUIRES: the tier has
  // released the memory of the last call.
  std::span<std::byte> probe_memory(std::size_t bytes);

  // A read-only descriptor for engines.
  int fd() const { return read_only_.get(); }
  std::uint64_t bytes() const { return mapping_.size(); }
  const std::byte* data() const { return mapping_.data(); }

 private:
  ResidencyFilter(Fd read_only, Mapping mapping, std::uint64_t buckets);

  protocol::ResidencyPlace place(const tiers::ChunkKey& key) const;
  void enter(const protocol::ResidencyPlace& place);

  Fd read_only_;
  Mapping mapping_;
  protocol::ResidencyHeader* header_;
  protocol::ResidencyBucket* buckets_;
  std::uint64_t bucket_count_;
  std::uint64_t words_ = 0;  // in use; a walk over an empty region would touch all of its pages

  std::unique_ptr<std::byte, decltype(&std::free)> probe_memory_{nullptr, &std::free};
  std::mutex recent_mutex_;
  std::array<tiers::ChunkKey, 16> recent_{};
  std::uint64_t recent_added_ = 0, recent_given_ = 0;
};

}  // namespace larder::tiering
