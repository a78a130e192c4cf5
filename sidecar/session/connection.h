// Connection: the socket of one engine, with its region, lock and protocol state. Owned by the
// thread of the loop.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/memory/lock_file.h"
#include "sidecar/memory/session_memory.h"
#include "sidecar/session/answer_queue.h"
#include "sidecar/session/event_reader.h"
#include "sidecar/session/session_protocol.h"

namespace larder::session {

// The loop's objects for an engine before its first message.
struct ConnectionParts {
  Fd socket, pidfd;
  memory::SessionMemory memory;
  memory::LockFile lock;
};

struct Connection {
  Connection(ConnectionParts parts, const SessionFacts& facts, const SessionServices& services)
      : socket(std::move(parts.socket)),
        pidfd(std::move(parts.pidfd)),
        memory(std::move(parts.memory)),
        lock(std::move(parts.lock)),
        protocol(facts, memory.region(), services, [this] { return lock.held(); }),
        connected_ms(services.clock.now_ms()),
        beat_ms(connected_ms) {}

  Fd socket;
  Fd pidfd;  // invalid on kernels without SO_PEERPIDFD
  memory::SessionMemory memory;
  memory::LockFile lock;
  SessionProtocol protocol;
  AnswerQueue answers;
  EventReader events;
  std::uint64_t connected_ms;
  std::uint64_t beat_ms;  // the time of the last change of the heartbeat, by the clock of larderd
  std::uint64_t beat = 0;
  bool silent = false;
};

}  // namespace larder::session
