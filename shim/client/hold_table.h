// HoldTable: this engine's announcements of the slots it reads, in the session region.
//
// The handshake with eviction: announce (exchange), then re-read the slot's word. The sidecar makes the word dying (exchange), then
// scans the holds. Both are sequentially consistent, so at least one of the two sees the other. Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "shim/protocol/index_reader.h"
#include "shim/protocol/session_layout.h"
#include "shim/protocol/test_point.h"

namespace larder::client {

class HoldTable {
 public:
  // The region outlives the table.
  explicit HoldTable(protocol::SessionRegion& region) : region_(region) { free_.reserve(protocol::kMaxHolds); }

  // Holds the slot, if it is still committed at this generation. Nothing: it is not, or the table is full.
  std::optional<std::uint32_t> acquire(const protocol::IndexReader& index, std::uint32_t slot, std::uint64_t generation) {
    const std::optional<std::uint32_t> place = take_place();
    if (!place) return std::nullopt;
    LARDER_POINT(hold_place_taken);
    region_.holds[*place].exchange(protocol::make_hold(slot, generation), std::memory_order_seq_cst);
    LARDER_POINT(hold_announced);
    if (index.still_committed(slot, generation)) return place;
    release(*place);
    return std::nullopt;
  }

  // REQUIRES: `place` came from acquire() and was not released. Never allocates: it runs in destructors.
  void release(std::uint32_t place) noexcept {
    region_.holds[place].exchange(0, std::memory_order_seq_cst);
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
  }

 private:
  // The mark of places used is raised before a hold is announced beyond it.
  std::optional<std::uint32_t> take_place() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const std::uint32_t place = free_.back();
      free_.pop_back();
      return place;
    }
    if (used_ == protocol::kMaxHolds) return std::nullopt;
    region_.holds_used.exchange(used_ + 1, std::memory_order_seq_cst);
    return used_++;
  }

  protocol::SessionRegion& region_;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

// A place that acquire() gave, released on destruction. The table outlives it.
class Held {
 public:
  Held(HoldTable& table, std::uint32_t place) : table_(table), place_(place) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { table_.release(place_); }

 private:
  HoldTable& table_;
  const std::uint32_t place_;
};

}  // namespace larder::client
