// AnswerQueue: the answers that one engine's socket has no room for yet, in order and bounded.
//
// An engine may send the stores of a whole step before it reads; the socket's buffer alone holds the answers to some 250 of them.
// Owned by the loop's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "shim/base/fd.h"

namespace larder::session {

class AnswerQueue {
 public:
  static constexpr std::size_t kMaxPackets = 1024;
  static constexpr std::size_t kMaxBytes = 1 << 20;

  // Sends the packet, or keeps it behind those that wait. One with descriptors is never kept. kResourceExhausted: over the bound.
  Status send(const Fd& socket, std::vector<std::byte> packet, std::span<const int> fds = {});
  // Sends what the socket has room for.
  Status flush(const Fd& socket);
  bool empty() const { return packets_.empty(); }

 private:
  std::deque<std::vector<std::byte>> packets_;
  std::size_t bytes_ = 0;
};

}  // namespace larder::session
