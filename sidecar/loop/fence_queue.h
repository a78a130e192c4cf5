// FenceQueue: keeps the answers to drops until the lower tiers have noted the drops.
//
// An answer to a drop means that the drop is done. A death of this process must not undo a drop, so
// the answer waits until each tier has the drop on stable storage. The wait for a shared server is
// bounded: this larderd hides the dropped chunks, and other larderd can find them until the server
// is done in any case. Owned by the thread of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/tiering/lower_tiers.h"

namespace larder::loop {

class FenceQueue {
 public:
  static constexpr int kMaxFences = 1024;  // of one session
  // An engine neither loads nor stores until its drop is done. The bound on the wait for a shared
  // backend, which goes through all keys of the server.
  static constexpr std::uint64_t kSharedFenceMs = 1000;

  struct Answer {
    std::uint32_t session;
    std::vector<std::byte> packet;
  };

  // `is_live`: whether a session is live. Answers of ended sessions are forgotten.
  explicit FenceQueue(std::function<bool(std::uint32_t session)> is_live)
      : is_live_(std::move(is_live)) {}
  FenceQueue(const FenceQueue&) = delete;

  // Keeps the packet until all of `drops` are noted. kResourceExhausted: the session has kMaxFences
  // answers here, and must end.
  Status hold(std::uint32_t session, std::vector<std::byte> packet,
              std::vector<tiering::PendingDrop> drops, std::uint64_t now_ms);
  // Takes the answers whose drops are noted, oldest first.
  std::vector<Answer> take_done(std::uint64_t now_ms);

 private:
  struct Fence {
    Answer answer;
    std::vector<tiering::PendingDrop> drops;
    std::uint64_t shared_by_ms = 0;  // the end of the wait for a shared tier
  };

  std::function<bool(std::uint32_t)> is_live_;
  std::deque<Fence> fences_;  // oldest first
};

}  // namespace larder::loop
