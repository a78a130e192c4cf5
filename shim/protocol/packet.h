// One packet with descriptors over a Unix SEQPACKET socket. The only file with SCM_RIGHTS.
//
// Stateless. A socket has at most one sender and one receiver at a time.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "shim/base/fd.h"
#include "shim/base/status.h"
#include "shim/protocol/limits.h"

namespace larder::protocol {

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

// Sends without blocking. kResourceExhausted: the socket's buffer is full, and the packet was not
// sent. kUnavailable: the peer is gone.
inline Status send_packet(int socket, std::span<const std::byte> bytes,
                          std::span<const int> fds = {}) {
  if (bytes.size() > kMaxPacketBytes || fds.size() > kMaxPacketFds)
    return {Code::kOutOfRange, "packet over its limit"};
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPacketFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
    if (errno != EINTR) return Status::from_errno(errno, "sendmsg");
  }
}

// Receives one packet without blocking. kResourceExhausted: no packet is there. kUnavailable: the
// peer closed the socket. kInvalidArgument: the packet or its descriptors were over the limits; the
// descriptors are closed.
inline Result<Packet> receive_packet(int socket) {
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  iovec data{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPacketFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = 0;
  // After a peer closed without reading everything, the kernel reports ECONNRESET once, and then
  // returns the peer's last packets, such as its ERROR.
  bool reset_seen = false;
  do {
    received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 &&
           (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset_seen, true))));
  if (received < 0) return Status::from_errno(errno, "recvmsg");
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
      packet.fds.emplace_back(fd);
    }
  }
  if (received == 0) return Status(Code::kUnavailable, "the peer closed the socket");
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return Status(Code::kInvalidArgument, "packet over its limit");
  packet.bytes.resize(static_cast<std::size_t>(received));
  return packet;
}

}  // namespace larder::protocol
