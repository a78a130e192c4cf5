// RecoveryGrace: the time between a warm restart and its end, Store::end_recovery_grace().
//
// Until end(), the store hands on no slot that held a chunk: engines may not have announced all
// holds again. Until supersede(), engines may still look up in the earlier index. Owned by the
// thread of the store.
#pragma once

#include <optional>

#include "sidecar/store/previous_index.h"

namespace larder::store {

class RecoveryGrace {
 public:
  // `earlier` stays mapped until end().
  void begin(const PreviousIndex& earlier) {
    earlier_ = earlier;
    active_ = true;
  }
  // REQUIRES: begin(), and no supersede() since.
  const PreviousIndex& earlier() const { return *earlier_; }
  bool active() const { return active_; }
  // Engines that still look up in the earlier index attach again.
  // No effect without an earlier index.
  void supersede() {
    if (!earlier_) return;
    earlier_->supersede();
    earlier_.reset();
  }
  void end() { active_ = false; }

 private:
  std::optional<PreviousIndex> earlier_;
  bool active_ = false;
};

}  // namespace larder::store
