// AdaptiveCache: the adaptive policy of larderd's store over the chunks of a trace.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sidecar/sizing/simulated_cache.h"
#include "sidecar/store/adaptive.h"

namespace larder::sizing {

class AdaptiveCache final : public SimulatedCache {
 public:
  explicit AdaptiveCache(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  void begin() override;
  bool has(std::uint64_t chunk) const override { return slots_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t next) override;
  bool insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t next) override;

 private:
  // The policy and its slots: one for each place of the first chunk's size.
  struct Policy {
    explicit Policy(std::uint64_t slots) : table(slots), policy(table, slots) {}
    store::SlotTable table;
    store::Adaptive policy;
  };
  struct Chunk {
    std::uint64_t chunk, bytes, request;  // the last request
  };

  void enter(std::uint32_t slot);
  bool evict_one();

  const std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0, request_ = 0;
  std::uint32_t above_ = store::kNoSlot;  // the chunk before it in the request
  std::unique_ptr<Policy> own_;           // from the first insert() on
  std::vector<Chunk> chunks_;             // by slot
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;
};

}  // namespace larder::sizing
