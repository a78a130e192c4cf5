#include "sidecar/session/answer_queue.h"

#include <utility>

#include "shim/protocol/packet.h"

namespace larder::session {

Status AnswerQueue::send(const Fd& socket, std::vector<std::byte> packet,
                         std::span<const int> fds) {
  if (packets_.empty()) {
    Status sent = protocol::send_packet(socket.get(), packet, fds);
    if (sent.code() != Code::kResourceExhausted) return sent;
  }
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
    bytes_ -= packets_.front().size();
    packets_.pop_front();
  }
  return {};
}

}  // namespace larder::session
