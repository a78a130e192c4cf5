// Listener: Residents that remember the tier's chunks.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "sidecar/tiers/tier.h"

namespace larder::tiers::testing_support {

// By number, as key_of() makes keys. The test reads the fields that the tier's thread writes.
class Listener final : public Residents {
 public:
  void added(const ChunkKey& key) override {
    const std::lock_guard lock(mutex_);
    there_.insert(key.hash.hi);
  }
  void removed(const ChunkKey& key) override {
    const std::lock_guard lock(mutex_);
    there_.erase(key.hash.hi);
  }
  void removed_all() override {
    const std::lock_guard lock(mutex_);
    there_.clear();
  }
  std::set<std::uint64_t> there() const {
    const std::lock_guard lock(mutex_);
    return there_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::uint64_t> there_;
};

}  // namespace larder::tiers::testing_support
