#include "sidecar/backend_check/dialogue.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "sidecar/base/time_units.h"
#include "sidecar/net/resolver.h"
#include "sidecar/net/tls_stream.h"

namespace larder::backend_check {
namespace {

using base::kNsPerMs;

// `late`: the text of the error after the deadline.
Status wait_for(int fd, short events, const Dialogue::Waiting& by, std::uint64_t deadline_ns,
                const std::string& late) {
  for (;;) {
    const std::uint64_t now = by.clock.now_ns();
    if (now >= deadline_ns) return {Code::kDeadlineExceeded, late};
    pollfd polled[] = {{fd, events, 0}, {by.stop.get(), POLLIN, 0}};
    // Rounded up: poll() with 0 ms would spin until the deadline.
    const std::uint64_t left_ms =
        std::min<std::uint64_t>((deadline_ns - now) / kNsPerMs + 1, 60'000);
    // EINTR or a timeout: the loop looks at the clock again.
    if (::poll(polled, 2, static_cast<int>(left_ms)) <= 0) continue;
    // The stop wins over an answer: the operator wants to end.
    return polled[1].revents == 0 ? Status() : Status(Code::kUnavailable, "stopping");
  }
}

// A local server shares this machine's processors, and its connection needs no TLS.
bool is_local(const remote::Address& address) {
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

Result<std::vector<remote::Address>> resolve(const remote::Endpoint& endpoint,
                                             const Dialogue::Waiting& waiting,
                                             std::uint64_t deadline_ns) {
  const Fd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready.valid()) return Status::from_errno(errno, "eventfd");
  // getaddrinfo() has no deadline, so the resolver has a thread and this loop waits with one.
  remote::Resolver resolver(endpoint, ready);
  for (;;) {
    if (std::optional<Result<std::vector<remote::Address>>> found = resolver.poll())
      return *std::move(found);
    const std::string late = "backend.url: " + endpoint.host + " takes long to be resolved";
    if (Status waited = wait_for(ready.get(), POLLIN, waiting, deadline_ns, late); !waited.ok())
      return waited;
  }
}

Result<std::unique_ptr<remote::Stream>> connect(const remote::TlsOptions& tls,
                                                const std::string& host,
                                                const remote::Address& address,
                                                const Dialogue::Waiting& waiting,
                                                std::uint64_t deadline_ns) {
  Result<std::unique_ptr<remote::Stream>> stream = remote::open_socket_stream(address);
  if (stream.ok() && tls.enabled) stream = remote::open_tls_stream(*std::move(stream), tls, host);
  if (!stream.ok()) return stream;
  for (;;) {
    const Result<bool> established = (*stream)->establish();
    if (!established.ok()) return established.status();
    if (*established) return stream;
    // A TLS handshake alternates between both directions.
    const short events = static_cast<short>((*stream)->wants_write() ? POLLIN | POLLOUT : POLLIN);
    const Status waited = wait_for((*stream)->fd(), events, waiting, deadline_ns,
                                   "connect: the server does not answer");
    if (!waited.ok()) return waited;
  }
}

}  // namespace

Result<std::unique_ptr<Dialogue>> Dialogue::open(const remote::TlsOptions& tls,
                                                 const remote::Endpoint& endpoint,
                                                 const Waiting& waiting,
                                                 std::uint64_t deadline_ns) {
  const Result<std::vector<remote::Address>> addresses = resolve(endpoint, waiting, deadline_ns);
  if (!addresses.ok()) return addresses.status();
  Status failure(Code::kUnavailable, "backend.url: " + endpoint.host + " has no address");
  for (std::size_t i = 0; i < addresses->size(); ++i) {
    // A silent address takes only its share of the remaining time, so the others get a try.
    const std::uint64_t now = waiting.clock.now_ns(),
                        left = deadline_ns > now ? deadline_ns - now : 0;
    const remote::Address& address = (*addresses)[i];
    Result<std::unique_ptr<remote::Stream>> stream =
        connect(tls, endpoint.host, address, waiting, now + left / (addresses->size() - i));
    if (stream.ok())
      return std::make_unique<Dialogue>(*std::move(stream), waiting, is_local(address));
    failure = stream.status();
  }
  return failure;
}

Dialogue::Dialogue(std::unique_ptr<remote::Stream> stream, const Waiting& waiting, bool local)
    : connection_(std::move(stream)), waiting_(waiting), local_(local) {}

Status Dialogue::run(std::vector<remote::Request> requests, std::uint64_t deadline_ns) {
  if (!over_.ok()) return over_;
  for (remote::Request& request : requests)
    connection_.ask(std::move(request), waiting_.clock.now_ns());
  while (over_.ok() && connection_.commands() != 0) {
    bool more = false;
    over_ = connection_.pump(waiting_.clock.now_ns(), more);
    // `more`: bytes are ready already, so a wait for the socket could hang.
    if (!over_.ok() || more || connection_.commands() == 0) continue;
    const short events = static_cast<short>(connection_.wants_write() ? POLLIN | POLLOUT : POLLIN);
    over_ = wait_for(connection_.stream().fd(), events, waiting_, deadline_ns,
                     "the server does not answer");
  }
  // Runs the callbacks of all waiting requests, which refer to locals of the callers.
  if (!over_.ok()) connection_.close(over_);
  return over_;
}

Result<remote::Reply> Dialogue::ask(std::span<const std::string_view> words, std::string_view types,
                                    std::uint64_t deadline_ns) {
  std::optional<remote::Reply> answer;
  std::vector<remote::Request> requests(1);
  requests[0].around.before = remote::format_command(words);
  requests[0].expect.types = types;
  requests[0].expect.long_reply =
      true;  // a Cluster's map is long; larderd's own limit protects its memory
  requests[0].then = [&answer](const Status& lost, remote::Reply reply) {
    if (lost.ok()) answer = std::move(reply);
  };
  const Status ran = run(std::move(requests), deadline_ns);
  // A reply counts even if the server hung up right behind it: -DENIED and "max number of clients
  // reached" come this way.
  if (answer) return *std::move(answer);
  return ran.ok() ? Status(Code::kUnavailable, "the server broke the protocol") : ran;
}

}  // namespace larder::backend_check
