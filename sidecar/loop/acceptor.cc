#include "sidecar/loop/acceptor.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "shim/protocol/packet.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/loop/wakeups.h"
#include "sidecar/session/listener.h"

namespace larder::loop {
namespace {

// At most so many at once: live sessions wait meanwhile. The listening socket stays readable, so
// the next turn goes on.
constexpr int kAcceptsPerTurn = 16;

// An engine proves with the token that a previous session was its own. 0 means "no previous
// session", so 0 is drawn again.
std::uint64_t random_token() {
  std::uint64_t token = 0;
  while (token == 0)
    if (::getrandom(&token, sizeof(token), 0) != sizeof(token)) token = 0;
  return token;
}

}  // namespace

void Acceptor::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Fd socket(::accept4(parts_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      // ECONNABORTED: the engine gave up while waiting in the backlog. Only a lack of resources
      // pauses the loop.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) pause(errno);
      return;
    }
    if (Status status = admit(socket); !status.ok()) {
      ++stats_.sessions_refused;
      loop_stats_.note_refused(status.text(), clock_.now_ms());
      base::log_refusal(session::peer_of(socket).user, status.text(), base::LogLevel::kWarning,
                        "an engine was refused: " + status.text());
      // Best effort: the closed socket also tells the engine.
      [[maybe_unused]] const Status sent =
          protocol::send_packet(socket.get(), session::error_packet(status));
    }
  }
}

// Descriptors or memory ran out. The socket stays readable, and the loop would spin without a
// pause. The tick resumes accepting.
void Acceptor::pause(int error) {
  accepting_ = false;
  ::epoll_ctl(parts_.epoll.get(), EPOLL_CTL_DEL, parts_.listener.get(), nullptr);
  ++stats_.sessions_refused;
  base::log_from("accept", base::LogLevel::kError,
                 "accept: " + std::generic_category().message(error));
}

void Acceptor::resume() {
  if (!accepting_)
    accepting_ = watch(parts_.epoll, parts_.listener, {WakeupSource::kListener}).ok();
}

Status Acceptor::admit(Fd& socket) {
  // Ended sessions with a possible writer count: their lock files and grants still take places.
  if (sessions_.size() + ended_.taken() >= protocol::kMaxSessions)
    return {Code::kResourceExhausted, "all " + std::to_string(protocol::kMaxSessions) +
                                          " sessions are taken: end an engine of this larderd"};
  session::SessionFacts facts;
  // Numbers grow, also over a warm restart: the number in an old lock file or index names one
  // session only.
  facts.number = next_session_++;
  facts.peer = session::peer_of(socket);
  facts.token = random_token();
  facts.epoch = parts_.shape.epoch;
  facts.arena_bytes = parts_.arena.mapping.size();
  facts.index_bytes = parts_.index.mapping.size();
  facts.arena_page_bytes = parts_.arena.page_bytes;
  if (parts_.residency_filter) facts.residency_bytes = parts_.residency_filter->bytes();
  Result<memory::SessionMemory> memory = memory::SessionMemory::create();
  if (!memory.ok()) return memory.status();
  Result<memory::LockFile> lock =
      memory::LockFile::create(memory::lock_path(parts_.config.memory, facts.number));
  if (!lock.ok()) return lock.status();
  // Fails if the directory is full. The engine still gets its session.
  if (Status status = lock->write({facts.token, facts.epoch}); !status.ok())
    loop_stats_.note_fallback(
        "restart", "a session will not be recognised after a restart, which then takes longer: " +
                       status.text());
  Result<Fd> pidfd = session::peer_pidfd(socket);
  if (!pidfd.ok() && pidfd.status().code() != Code::kUnsupported) return pidfd.status();
  // Everything that can fail with an engine's socket comes before insert(), so a refused engine
  // leaves no session behind.
  auto connection = std::make_unique<session::Connection>(
      session::ConnectionParts{std::move(socket), pidfd.ok() ? std::move(*pidfd) : Fd(),
                               std::move(*memory), std::move(*lock)},
      facts, services_);
  if (Status status =
          watch(parts_.epoll, connection->socket, {WakeupSource::kSocket, facts.number});
      !status.ok())
    return status;
  if (!connection->pidfd.valid()) {
    loop_stats_.note_fallback(
        "pidfd",
        "the kernel gives no pidfd for a peer: only socket and heartbeat show an engine's death");
  } else {
    if (Status status =
            watch(parts_.epoll, connection->pidfd, {WakeupSource::kPidfd, facts.number});
        !status.ok())
      return status;
  }
  sessions_.insert(std::move(connection));
  return {};
}

}  // namespace larder::loop
