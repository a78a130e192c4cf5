// Outbox: the bounded queue of messages to the sidecar, and the only sender on its socket.
//
// Thread-safe. send() never waits: a packet goes out at once if the socket has room, and otherwise
// stays in the queue until the control thread calls flush(). A full queue or a failed socket closes
// the outbox for good: the session is lost.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "shim/protocol/packet.h"

namespace larder::client {

class Outbox {
 public:
  static constexpr std::size_t kMaxQueued = 256;  // packets of at most 64 KiB

  // Takes over the connected socket. `wake` is an eventfd, written when packets wait for flush().
  // The eventfd is shared because an attachment can outlive the control thread.
  Outbox(Fd socket, std::shared_ptr<const Fd> wake)
      : socket_(std::move(socket)), wake_(std::move(wake)) {}

  int socket() const { return socket_.get(); }

  // False: the session is lost, the message was dropped.
  bool send(std::span<const std::byte> packet, std::vector<Fd> fds = {}) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    if (queue_.empty()) {
      const Status sent = send_now(packet, fds);
      if (sent.ok()) return true;
      if (sent.code() != Code::kResourceExhausted) return close_locked();
    }
    if (queue_.size() == kMaxQueued) return close_locked();
    queue_.push_back({{packet.begin(), packet.end()}, std::move(fds)});
    wake_control();
    return true;
  }

  // Sends as much as the socket takes. False: the session is lost.
  bool flush() {
    const std::lock_guard lock(mutex_);
    while (!closed_ && !queue_.empty()) {
      const Status sent = send_now(queue_.front().bytes, queue_.front().fds);
      if (sent.code() == Code::kResourceExhausted) break;
      if (!sent.ok()) return close_locked();
      queue_.pop_front();
    }
    return !closed_;
  }

  bool pending() const {
    const std::lock_guard lock(mutex_);
    return !queue_.empty();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    close_locked();
  }

 private:
  Status send_now(std::span<const std::byte> packet, const std::vector<Fd>& fds) {
    std::array<int, protocol::kMaxPacketFds> numbers{};
    if (fds.size() > numbers.size()) return {Code::kOutOfRange, "packet over its limit"};
    for (std::size_t i = 0; i < fds.size(); ++i) numbers[i] = fds[i].get();
    return protocol::send_packet(socket_.get(), packet, {numbers.data(), fds.size()});
  }
  bool close_locked() {
    if (!closed_) ::shutdown(socket_.get(), SHUT_RDWR);
    closed_ = true;
    queue_.clear();
    wake_control();
    return false;
  }
  // A failed write needs no handling: an eventfd with a full counter is readable.
  void wake_control() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_->get(), &one, sizeof(one));
  }

  const Fd socket_;
  const std::shared_ptr<const Fd> wake_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::deque<protocol::Packet> queue_;
};

}  // namespace larder::client
