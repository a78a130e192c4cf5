#include "sidecar/tiers/plugin/plugin_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "shim/protocol/packet.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/unix_listener.h"
#include "sidecar/tiers/plugin/record.h"

namespace larder::plugin {
namespace {

#ifndef SO_PEERGROUPS
constexpr int SO_PEERGROUPS = 59;  // Linux 4.13; older headers lack the name
#endif

constexpr int kBacklog = 8;
constexpr int kAcceptsATurn = 8;  // a flood of connections must not stop the turns

Status fault(const Status& what) {
  return {Code::kUnavailable, "the plug-in " + what.text()};
}

// Whether the process at the other end was in the group at connect().
bool in_group(const Fd& socket, const ucred& who, gid_t group) {
  if (who.gid == group) return true;
  std::vector<gid_t> groups(1024);
  socklen_t size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0)
    return false;
  groups.resize(size / sizeof(gid_t));
  return std::ranges::find(groups, group) != groups.end();
}

}  // namespace

PluginLink::PluginLink(const PluginOptions& options, const base::Clock& clock,
                       const net::Poller& poller)
    : options_(options),
      clock_(clock),
      poller_(poller),
      buffer_(kMostPacketBytes + 1, '\0'),
      why_(Code::kUnavailable, "no plug-in is connected at " + options.socket) {}

PluginLink::~PluginLink() {
  if (socket_.valid()) poller_.forget(socket_.get());
  if (!listener_.valid()) return;
  poller_.forget(listener_.get());
  ::unlink(options_.socket.c_str());
}

Status PluginLink::open() {
  // After a reboot the directory is missing, as /run is a tmpfs. A failure shows in bind().
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options_.socket).parent_path(), error);
  Result<Fd> listener = base::listen_unix(
      {options_.socket, options_.socket_mode, SOCK_SEQPACKET, kBacklog, "backend.plugin_socket",
       "set backend.plugin_socket to another path", "set backend.plugin_socket"});
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  return poller_.watch(listener_.get(), EPOLLIN, true, acceptable_);
}

void PluginLink::turn() {
  if (std::exchange(acceptable_, false))
    for (int i = 0; i < kAcceptsATurn; ++i) {
      Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) break;
      accept_one(std::move(socket));
    }
  if (socket_.valid() && !ready_ && clock_.now_ns() >= ready_by_ns_)
    end_life({Code::kUnavailable, "the plug-in did not become ready in time"});
}

void PluginLink::accept_one(Fd socket) {
  if (const Status refusal = admissible(socket); !refusal.ok()) return refuse(socket, refusal);
  if (Status status = greet(std::move(socket)); !status.ok()) {
    why_ = status;
    base::log_from("plug-in", base::LogLevel::kWarning, "backend: " + status.text());
  }
}

// The mode of the socket file admits the same processes. This check also holds for mode 0666.
Status PluginLink::admissible(const Fd& socket) const {
  if (socket_.valid()) return {Code::kAlreadyExists, "another plug-in is connected"};
  ucred who{};
  socklen_t size = sizeof(who);
  // The kernel noted these credentials at connect(): the process cannot choose them.
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return Status::from_errno(errno, "SO_PEERCRED of a plug-in");
  struct stat file {};
  if (who.uid == ::geteuid() || who.uid == 0) return {};
  if (::stat(options_.socket.c_str(), &file) == 0 && in_group(socket, who, file.st_gid)) return {};
  return {Code::kPermissionDenied, "uid " + std::to_string(who.uid) +
                                       " is neither the user of larderd nor in the group of " +
                                       options_.socket};
}

void PluginLink::refuse(const Fd& socket, const Status& why) const {
  base::log_from("plug-in, refused", base::LogLevel::kWarning,
                 "backend: a plug-in is refused: " + why.text());
  // The reason goes to the refused process too, which can print the reason in its own log.
  const std::string packet = encode_refused(why.text());
  [[maybe_unused]] const ssize_t sent =
      ::send(socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Status PluginLink::greet(Fd socket) {
  // A region for each life: the process before may still write into its own, without harm.
  Result<BounceRegion> region = BounceRegion::create(options_.region_bytes);
  if (!region.ok()) return region.status();
  const std::string hello = encode_hello(
      {options_.region_bytes, static_cast<std::uint32_t>(object_key(options_.prefix, {}).size()),
       static_cast<std::uint32_t>(options_.patience_ms), options_.prefix, options_.url});
  // An EXIST of 1,024 long keys has 208 KB, and SEQPACKET takes no packet above its buffer.
  const int bytes = 2 * static_cast<int>(kMostPacketBytes);
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
  const int fd = region->fd().get();
  if (!protocol::send_packet(socket.get(), std::as_bytes(std::span(hello)), {&fd, 1}).ok())
    return Status::from_errno(errno, "HELLO to the plug-in");
  if (Status status = poller_.watch(socket.get(), EPOLLIN, true, readable_); !status.ok())
    return status;
  region_.emplace(*std::move(region));
  socket_ = std::move(socket);
  // A process that connects and says nothing must not keep the place of the real plug-in.
  ready_by_ns_ = clock_.now_ns() + options_.ready_ms * 1'000'000;
  return {};
}

void PluginLink::end_life(const Status& why) {
  if (!socket_.valid()) return;
  base::log_from("plug-in, end", base::LogLevel::kWarning, "backend: " + why.text());
  poller_.forget(socket_.get());
  socket_.reset();
  region_.reset();
  ready_.reset();
  packets_.clear();
  readable_ = blocked_ = false;
  why_ = why;
  ++life_;
}

// Empty: no packet waits, or the life has ended.
std::optional<std::string> PluginLink::read_packet() {
  iovec bytes{buffer_.data(), buffer_.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    readable_ = errno == EINTR;
    return std::nullopt;
  }
  if (got <= 0) end_life({Code::kUnavailable, "the plug-in has ended its connection"});
  // Without a buffer for control data the kernel drops a sent descriptor, and says so.
  else if ((message.msg_flags & MSG_CTRUNC) != 0)
    end_life(fault({Code::kInvalidArgument, "sent a file descriptor"}));
  else if ((message.msg_flags & MSG_TRUNC) != 0 || static_cast<std::size_t>(got) > kMostPacketBytes)
    end_life(fault({Code::kInvalidArgument, "sent a packet of more than 256 KiB"}));
  else
    return buffer_.substr(0, static_cast<std::size_t>(got));
  return std::nullopt;
}

std::optional<Packet> PluginLink::receive() {
  while (may_receive()) {
    const std::optional<std::string> bytes = read_packet();
    if (!bytes) return std::nullopt;
    Result<Packet> packet = decode(*bytes);
    Status status = packet.status();
    if (status.ok()) {
      Ready* const ready = std::get_if<Ready>(&*packet);
      if (ready == nullptr && ready_) return *std::move(packet);
      status = ready == nullptr ? Status(Code::kInvalidArgument, "answered before READY")
                                : take_ready(std::move(*ready));
    }
    if (!status.ok()) end_life(fault(status));
  }
  return std::nullopt;
}

Status PluginLink::take_ready(Ready ready) {
  if (ready_) return {Code::kInvalidArgument, "sent READY twice"};
  if (ready.protocol != kProtocol)
    return {Code::kUnsupported, "speaks protocol " + std::to_string(ready.protocol) +
                                    ", larderd speaks " + std::to_string(kProtocol) +
                                    ": use the plug-in of this release"};
  ready_ = std::move(ready);
  base::log_from("plug-in, ready", base::LogLevel::kInfo,
                 "backend: the plug-in " + plugin() + " is connected");
  return {};
}

void PluginLink::send(std::string packet) {
  packets_.push_back(std::move(packet));
}

void PluginLink::flush() {
  while (!packets_.empty() && socket_.valid()) {
    const std::string& packet = packets_.front();
    if (::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno != EAGAIN && errno != EINTR)
        return end_life(Status::from_errno(errno, "a packet to the plug-in"));
      // Until the plug-in reads: a slow reader must not make the thread spin.
      if (!std::exchange(blocked_, true))
        static_cast<void>(poller_.watch(socket_.get(), EPOLLIN | EPOLLOUT, false, readable_).ok());
      return;
    }
    packets_.pop_front();
  }
  if (std::exchange(blocked_, false) && socket_.valid())
    static_cast<void>(poller_.watch(socket_.get(), EPOLLIN, false, readable_).ok());
}

}  // namespace larder::plugin
