#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "shim/base/fd.h"
#include "sidecar/net/stream.h"

namespace larder::net {
namespace {

constexpr std::size_t kMostParts = 64;  // per system call

class SocketStream final : public Stream {
 public:
  SocketStream(Fd fd, bool connecting) : fd_(std::move(fd)), connecting_(connecting) {}

  int fd() const override { return fd_.get(); }

  Result<bool> establish() override {
    if (!connecting_) return true;
    pollfd polled{fd_.get(), POLLOUT, 0};
    if (::poll(&polled, 1, 0) == 0) return false;
    int error = 0;
    socklen_t size = sizeof(error);
    // A writable socket may also be one whose connect failed: SO_ERROR tells.
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return Status::from_errno(error, "connect");
    connecting_ = false;
    return true;
  }

  Moved receive(std::span<std::byte> first, std::span<std::byte> second) override {
    iovec parts[2] = {{first.data(), first.size()}, {second.data(), second.size()}};
    msghdr message{};
    message.msg_iov = first.empty() ? parts + 1 : parts;
    message.msg_iovlen = first.empty() || second.empty() ? 1 : 2;
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (got > 0) return {static_cast<std::size_t>(got), {}};
    if (got == 0) return {0, {Code::kUnavailable, "the server closed the connection"}};
    if (errno == EAGAIN || errno == EINTR) return {};
    return {0, Status::from_errno(errno, "receive")};
  }

  Moved send(std::span<const std::span<const std::byte>> parts) override {
    std::array<iovec, kMostParts> vectors;
    std::size_t count = 0, wanted = 0;
    for (const std::span<const std::byte>& part : parts.first(std::min(parts.size(), kMostParts))) {
      vectors[count++] = {const_cast<std::byte*>(part.data()), part.size()};
      wanted += part.size();
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    // MSG_NOSIGNAL: a closed connection must not end larderd by SIGPIPE.
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    blocked_ = sent < 0 || static_cast<std::size_t>(sent) < wanted;
    if (sent >= 0) return {static_cast<std::size_t>(sent), {}};
    if (errno == EAGAIN || errno == EINTR) return {};
    return {0, Status::from_errno(errno, "send")};
  }

  bool wants_write() const override { return connecting_ || blocked_; }

 private:
  Fd fd_;
  bool connecting_;
  bool blocked_ = false;
};

void set_option(const Fd& fd, int level, int name, int value) {
  ::setsockopt(fd.get(), level, name, &value, sizeof(value));  // a failure only costs speed
}

void keep_alive(const Fd& fd) {
  // Requests are small, and the next one often waits for the reply: Nagle's algorithm would add up
  // to 40 ms.
  // Keep-alive ends a connection to a vanished machine after 60 s, even while no command is open.
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);  // seconds
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

Result<Address> unix_address(const std::string& path) {
  sockaddr_un name{};
  if (path.empty() || path.size() >= sizeof(name.sun_path))
    return Status(Code::kInvalidArgument,
                  "unix_path: \"" + path + "\" is no path of a Unix socket");
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  Address address;
  std::memcpy(&address.storage, &name, sizeof(name));
  address.size = sizeof(name);
  address.text = path;
  return address;
}

std::size_t waiting_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::unique_ptr<Stream> stream_over(Fd socket) {
  keep_alive(socket);
  return std::make_unique<SocketStream>(std::move(socket), false);
}

Result<std::unique_ptr<Stream>> open_socket_stream(const Address& address) {
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  if (address.storage.ss_family != AF_UNIX) keep_alive(fd);
  bool connecting = false;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    if (errno != EINPROGRESS) return Status::from_errno(errno, "connect");
    connecting = true;
  }
  return std::unique_ptr<Stream>(std::make_unique<SocketStream>(std::move(fd), connecting));
}

}  // namespace larder::net
