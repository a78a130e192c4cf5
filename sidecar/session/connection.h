// Connection: the socket of one engine, with its region, lock and protocol state. Owned by the
// thread of the loop.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/memory/small_regions.h"
#include "sidecar/session/answer_queue.h"
#include "sidecar/session/event_reader.h"
#include "sidecar/session/session_protocol.h"

namespace larder::session {

struct Connection {
  Connection(Fd socket_fd, Fd pid_fd, memory::SessionMemory session_memory, memory::LockFile lock_file, const SessionFacts& facts,
             store::Store& store, stats::Stats& stats, const base::Clock& clock, tiering::Promoter* promotions,
             tiering::TierProbes* probes, ReuseTracker* demand, transfer::Transfers* transfers)
      : socket(std::move(socket_fd)),
        pidfd(std::move(pid_fd)),
        memory(std::move(session_memory)),
        lock(std::move(lock_file)),
        protocol(
            facts, memory.region(), store, stats, clock, [this] { return lock.held(); }, promotions, probes, demand, transfers),
        connected_ms(clock.now_ms()),
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
