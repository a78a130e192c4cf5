// Connection: one engine's socket and everything that goes with it. Owned by the loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "shim/protocol/fd.h"
#include "sidecar/ipc/answer_queue.h"
#include "sidecar/ipc/event_reader.h"
#include "sidecar/ipc/session_protocol.h"
#include "sidecar/ipc/small_regions.h"

namespace larder::ipc {

struct Connection {
  Connection(Fd socket_fd, Fd pid_fd, SessionMemory session_memory, LockFile lock_file, const SessionFacts& facts,
             store::Store& store, stats::Stats& stats, const base::Clock& clock, Promotions* promotions, Looks* looks,
             Demand* demand, transfer::Transfers* transfers)
      : socket(std::move(socket_fd)),
        pidfd(std::move(pid_fd)),
        memory(std::move(session_memory)),
        lock(std::move(lock_file)),
        protocol(
            facts, memory.region(), store, stats, clock, [this] { return lock.held(); }, promotions, looks, demand, transfers),
        connected_ms(clock.now_ms()),
        beat_ms(connected_ms) {}

  Fd socket;
  Fd pidfd;  // invalid where the kernel cannot give one
  SessionMemory memory;
  LockFile lock;
  SessionProtocol protocol;
  AnswerQueue answers;
  EventReader events;
  std::uint64_t connected_ms;
  std::uint64_t beat_ms;  // when the heartbeat last moved, by our clock
  std::uint64_t beat = 0;
  bool silent = false;
};

}  // namespace larder::ipc
