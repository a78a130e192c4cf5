// Acceptor: lets engines in, up to the limit of sessions, and makes the memory, the lock file and
// the number of each new session.
//
// Owned by the thread of the loop. All arguments of the constructor outlive this object.
#pragma once

#include <cstdint>

#include "shim/base/fd.h"
#include "shim/base/status.h"
#include "sidecar/loop/ended_sessions.h"
#include "sidecar/loop/loop_parts.h"
#include "sidecar/loop/loop_stats.h"
#include "sidecar/loop/session_table.h"
#include "sidecar/session/session_protocol.h"

namespace larder::loop {

class Acceptor {
 public:
  Acceptor(LoopParts& parts, const session::SessionServices& services, SessionTable& sessions,
           const EndedSessions& ended, LoopStats& loop_stats)
      : parts_(parts),
        services_(services),
        sessions_(sessions),
        ended_(ended),
        loop_stats_(loop_stats) {}
  Acceptor(const Acceptor&) = delete;

  // Numbers new sessions from here on. Called before the first session.
  void continue_from(std::uint32_t number) { next_session_ = number; }
  // Lets waiting engines in, at most kAcceptsPerTurn. A refused engine gets the reason.
  void accept_all();
  // Each tick: accepts again after descriptors or memory ran out.
  void resume();

 private:
  void pause(int error);
  // Takes the socket. After an error of an early step the caller still has the socket, to send
  // ERROR.
  Status admit(Fd& socket);

  LoopParts& parts_;
  const session::SessionServices services_;
  stats::Stats& stats_ = services_.stats;
  const base::Clock& clock_ = services_.clock;
  SessionTable& sessions_;
  const EndedSessions& ended_;
  LoopStats& loop_stats_;
  std::uint32_t next_session_ = 1;
  bool accepting_ = true;
};

}  // namespace larder::loop
