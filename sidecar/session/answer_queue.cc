#include "sidecar/session/answer_queue.h"

#include <utility>

#include "shim/protocol/packet.h"

namespace larder::session {

Status AnswerQueue::send(const Fd& socket, std::vector<std::byte> packet,
                         std::span<const int> fds) {
  // Only with an empty queue: a packet sent past waiting packets would arrive before older replies.
  if (packets_.empty()) {
    Status sent = protocol::send_packet(socket.get(), packet, fds);
    if (sent.code() != Code::kResourceExhausted) return sent;
  }
  // Descriptors would have to stay open while the packet waits, so such a packet is refused. The
  // bounds keep the memory of larderd safe from an engine that never reads; the caller ends its
  // session.
  if (!fds.empty() || packets_.size() == kMaxPackets || packet.size() > kMaxBytes - bytes_)
    return {Code::kResourceExhausted, "the engine does not read its answers"};
  bytes_ += packet.size();
  packets_.push_back(std::move(packet));
  return {};
}

Status AnswerQueue::flush(const Fd& socket) {
  while (!packets_.empty()) {
    Status sent = protocol::send_packet(socket.get(), packets_.front());
    if (sent.code() == Code::kResourceExhausted) return {};
    if (!sent.ok()) return sent;
    // A SOCK_SEQPACKET socket takes a packet whole or not at all, so no offset is needed.
    bytes_ -= packets_.front().size();
    packets_.pop_front();
  }
  return {};
}

}  // namespace larder::session
