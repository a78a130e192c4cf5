// AnswerQueue: the replies of one engine that wait for room in the socket, in order and bounded.
//
// An engine may send the stores of a whole step before it reads; the socket buffer holds about 250
// replies. Owned by the thread of the loop.
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

  // Sends the packet, or queues it behind waiting packets. A packet with descriptors is never
  // queued. kResourceExhausted: beyond the bound; the engine stopped reading, and the caller ends
  // its session.
  Status send(const Fd& socket, std::vector<std::byte> packet, std::span<const int> fds = {});
  // Sends as many packets as the socket has room for.
  Status flush(const Fd& socket);
  bool empty() const { return packets_.empty(); }

 private:
  std::deque<std::vector<std::byte>> packets_;
  std::size_t bytes_ = 0;
};

}  // namespace larder::session
