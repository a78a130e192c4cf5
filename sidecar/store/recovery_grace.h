// RecoveryGrace: the time between a warm restart and its end, Store::settled().
//
// Until settle(), the store hands on no slot that held a chunk: engines may not have announced all
// holds again. Until supersede(), engines may still look up in the earlier index. Owned by the
// thread of the store.
#pragma once

#include <optional>

#include "sidecar/store/previous_index.h"

namespace larder::store {

class RecoveryGrace {
 public:
  // `earlier` stays mapped until settle().
  void begin(const PreviousIndex& earlier) {
    earlier_ = earlier;
    settling_ = true;
  }
  // REQUIRES: begin(), and no supersede() since.
  const PreviousIndex& earlier() const { return *earlier_; }
  bool settling() const { return settling_; }
  // Engines that still look up in the earlier index attach again.
  // No effect without an earlier index.
  void supersede() {
    if (!earlier_) return;
    earlier_->supersede();
    earlier_.reset();
  }
  void settle() { settling_ = false; }

 private:
  std::optional<PreviousIndex> earlier_;
  bool settling_ = false;
};

}  // namespace larder::store
