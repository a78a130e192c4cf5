#include "sidecar/tiers/remote/dialogue.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "sidecar/tiers/remote/resolver.h"
#include "sidecar/tiers/remote/tls_stream.h"

namespace larder::remote {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;

// False: the deadline came first.
bool wait_for(int fd, short events, const base::Clock& clock, std::uint64_t deadline_ns) {
  for (;;) {
    const std::uint64_t now = clock.now_ns();
    if (now >= deadline_ns) return false;
    pollfd polled{fd, events, 0};
    const std::uint64_t left_ms = std::min<std::uint64_t>((deadline_ns - now) / kNsPerMs + 1, 60'000);
    if (::poll(&polled, 1, static_cast<int>(left_ms)) > 0) return true;
  }
}

bool is_local(const Address& address) {
  if (address.storage.ss_family == AF_UNIX) return true;
  if (address.storage.ss_family == AF_INET6) {
    sockaddr_in6 name{};
    std::memcpy(&name, &address.storage, sizeof(name));
    return IN6_IS_ADDR_LOOPBACK(&name.sin6_addr);
  }
  sockaddr_in name{};
  std::memcpy(&name, &address.storage, sizeof(name));
  return ntohl(name.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

Result<std::vector<Address>> resolve(const Endpoint& endpoint, const base::Clock& clock, std::uint64_t deadline_ns) {
  const Fd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready.valid()) return Status::from_errno(errno, "eventfd");
  Resolver resolver(endpoint, ready);
  for (;;) {
    if (std::optional<Result<std::vector<Address>>> found = resolver.poll()) return *std::move(found);
    if (!wait_for(ready.get(), POLLIN, clock, deadline_ns))
      return Status(Code::kDeadlineExceeded, "backend.url: " + endpoint.host + " takes long to be resolved");
  }
}

Result<std::unique_ptr<Stream>> connect(const TlsOptions& tls, const std::string& host, const Address& address,
                                        const base::Clock& clock, std::uint64_t deadline_ns) {
  Result<std::unique_ptr<Stream>> stream = open_socket_stream(address);
  if (stream.ok() && tls.enabled) stream = open_tls_stream(*std::move(stream), tls, host);
  if (!stream.ok()) return stream;
  for (;;) {
    const Result<bool> established = (*stream)->establish();
    if (!established.ok()) return established.status();
    if (*established) return stream;
    const short events = static_cast<short>((*stream)->wants_write() ? POLLIN | POLLOUT : POLLIN);
    if (!wait_for((*stream)->fd(), events, clock, deadline_ns))
      return Status(Code::kDeadlineExceeded, "connect: the server does not answer");
  }
}

}  // namespace

Result<std::unique_ptr<Dialogue>> Dialogue::open(const TlsOptions& tls, const Endpoint& endpoint, const base::Clock& clock,
                                                 std::uint64_t deadline_ns) {
  const Result<std::vector<Address>> addresses = resolve(endpoint, clock, deadline_ns);
  if (!addresses.ok()) return addresses.status();
  Status failure(Code::kUnavailable, "backend.url: " + endpoint.host + " has no address");
  for (std::size_t i = 0; i < addresses->size(); ++i) {
    // One that is silent leaves the others their share of the time.
    const std::uint64_t now = clock.now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    const Address& address = (*addresses)[i];
    Result<std::unique_ptr<Stream>> stream = connect(tls, endpoint.host, address, clock, now + left / (addresses->size() - i));
    if (stream.ok()) return std::make_unique<Dialogue>(*std::move(stream), clock, is_local(address));
    failure = stream.status();
  }
  return failure;
}

Dialogue::Dialogue(std::unique_ptr<Stream> stream, const base::Clock& clock, bool local)
    : connection_(std::move(stream)), clock_(clock), local_(local) {}

Status Dialogue::run(std::vector<Request> requests, std::uint64_t deadline_ns) {
  if (!over_.ok()) return over_;
  for (Request& request : requests) connection_.ask(std::move(request), clock_.now_ns());
  while (over_.ok() && connection_.commands() != 0) {
    bool more = false;
    over_ = connection_.pump(clock_.now_ns(), more);
    if (!over_.ok() || more || connection_.commands() == 0) continue;
    const short events = static_cast<short>(connection_.wants_write() ? POLLIN | POLLOUT : POLLIN);
    if (!wait_for(connection_.stream().fd(), events, clock_, deadline_ns))
      over_ = {Code::kDeadlineExceeded, "the server does not answer"};
  }
  if (!over_.ok()) connection_.close(over_);
  return over_;
}

Result<Reply> Dialogue::ask(std::span<const std::string_view> words, std::string_view types, std::uint64_t deadline_ns) {
  std::optional<Reply> answer;
  std::vector<Request> requests(1);
  requests[0].around.before = format_command(words);
  requests[0].expect.types = types;
  requests[0].expect.long_reply = true;  // a Cluster's map; there is nothing else to be kept from here
  requests[0].then = [&answer](const Status& lost, Reply reply) {
    if (lost.ok()) answer = std::move(reply);
  };
  const Status ran = run(std::move(requests), deadline_ns);
  // An answer counts also where the server hung up right behind it.
  if (answer) return *std::move(answer);
  return ran.ok() ? Status(Code::kUnavailable, "the server broke the protocol") : ran;
}

}  // namespace larder::remote
