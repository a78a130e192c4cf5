// ResidencyFilter: the writer of the below region (shim/protocol/residency_layout.h): what the tier has, and how fast it is, for engines to see.
//
// As tiers::Residents it is called by the tier's thread alone, all else by the loop's; recent() by any. Shared by the loop and the
// tier, whose thread may outlive the loop.
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
  // For a tier of so many bytes: at most half full with chunks of 64 KiB.
  static Result<std::shared_ptr<ResidencyFilter>> create(std::uint64_t tier_bytes);

  void added(const tiers::ChunkKey& key) override { added_all({&key, 1}); }
  void added_all(std::span<const tiers::ChunkKey> keys) override;
  void removed(const tiers::ChunkKey& key) override;
  void removed_all() override;

  void publish(const protocol::ResidencySpeed& speed);
  // One of the last chunks that were added, each time another one; it may be gone.
  std::optional<tiers::ChunkKey> recent();

  // Memory to read a chunk into for nobody, aligned as slots are; empty where there is none. It is here because it lasts as long as the
  // tier's thread. REQUIRES: the tier has let go of what was given before.
  std::span<std::byte> probe_memory(std::size_t bytes);

  // For engines: it can only read.
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
  std::uint64_t words_ = 0;  // in use: an empty region is not walked, which would touch all of its pages

  std::unique_ptr<std::byte, decltype(&std::free)> probe_memory_{nullptr, &std::free};
  std::mutex recent_mutex_;
  std::array<tiers::ChunkKey, 16> recent_{};
  std::uint64_t recent_added_ = 0, recent_given_ = 0;
};

}  // namespace larder::tiering
