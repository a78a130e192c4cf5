// HoldTable: this engine's announcements of the slots it reads, in the session region.
//
// The handshake with eviction: the engine announces a hold (exchange), then reads the slot's word
// again. The sidecar makes the word dying (exchange), then scans the holds. Both exchanges are
// sequentially consistent, so at least one of the two sees the other.
//
// After a restart of larderd over the same arena, the holds of this table are announced in the next
// session's table too, until they are released; release() ends both. Thread-safe. Locks are taken
// in the order from a table to the next one.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "shim/base/test_point.h"
#include "shim/protocol/index_reader.h"
#include "shim/protocol/session_layout.h"

namespace larder::client {

class HoldTable {
 public:
  // The region outlives the table.
  explicit HoldTable(protocol::SessionRegion& region) : region_(region) {
    free_.reserve(protocol::kMaxHolds);
  }

  // Holds the slot if the slot is still committed at this generation. nullopt: it is not, or the
  // table is full.
  std::optional<std::uint32_t> acquire(const protocol::IndexReader& index, std::uint32_t slot,
                                       std::uint64_t generation) {
    const std::optional<std::uint32_t> place = take_place();
    if (!place) return std::nullopt;
    LARDER_POINT(hold_place_taken);
    region_.holds[*place].exchange(protocol::make_hold(slot, generation),
                                   std::memory_order_seq_cst);
    LARDER_POINT(hold_announced);
    if (carried_.load(std::memory_order_seq_cst)) announce_onward(*place);
    if (index.still_committed(slot, generation)) return place;  // mutation: hold-recheck
    release(*place);
    return std::nullopt;
  }

  // REQUIRES: `place` came from acquire() and was not released.
  // Never allocates: it runs in destructors.
  void release(std::uint32_t place) noexcept {
    region_.holds[place].exchange(0, std::memory_order_seq_cst);
    const std::lock_guard lock(mutex_);
    if (next_ && onward_[place] != kNowhere)
      next_->release(std::exchange(onward_[place], kNowhere));
    free_.push_back(place);
  }

  // From now on `next` announces the holds of this table too, instead of an earlier table; nullptr:
  // no table does. A hold without room in `next` stays in this table alone.
  void carry_over(std::shared_ptr<HoldTable> next) {
    std::vector<std::uint32_t> nowhere(next ? protocol::kMaxHolds : 0,
                                       kNowhere);  // may throw, so before any change
    std::shared_ptr<HoldTable> before;             // destroyed outside the lock
    const std::lock_guard lock(mutex_);
    before = std::exchange(next_, std::move(next));
    onward_.swap(nowhere);
    // The loop below sees every hold announced before this exchange. An acquire() after the
    // exchange sees `carried_`, and waits for the lock in announce_onward().
    carried_.exchange(next_ != nullptr, std::memory_order_seq_cst);
    if (!next_) return;
    for (std::uint32_t place = 0; place < used_; ++place) carry(place);
  }

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  void announce_onward(std::uint32_t place) {
    const std::lock_guard lock(mutex_);
    if (next_ && onward_[place] == kNowhere) carry(place);
  }
  // REQUIRES: mutex_ is held, and there is a next table.
  void carry(std::uint32_t place) {
    const std::uint64_t hold = region_.holds[place].load(std::memory_order_seq_cst);
    if (hold == 0) return;
    const std::optional<std::uint32_t> there = next_->take_place();
    if (!there) return;
    next_->region_.holds[*there].exchange(hold, std::memory_order_seq_cst);
    onward_[place] = *there;
    if (next_->carried_.load(std::memory_order_seq_cst)) next_->announce_onward(*there);
  }

  // holds_used is raised before a hold is announced in a place above the old value, because the
  // sidecar scans only the places below.
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
  std::shared_ptr<HoldTable> next_;
  std::vector<std::uint32_t> onward_;  // by place: the place of the same hold in the next table
  std::atomic<bool> carried_{false};   // there is a next table
};

// A place from acquire(), released on destruction. The table outlives the object.
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
