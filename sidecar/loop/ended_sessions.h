// EndedSessions: sessions that have ended, with an engine, a GPU or a copy of larderd that may
// still write. Their grants stay quarantined until the writer cannot write any more.
//
// Sessions of the previous instance are here from the start. Each of them is awaited until its
// engine has announced holds and grants again. Owned by the thread of the loop. All arguments of
// the constructor outlive this object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/base/clock.h"
#include "sidecar/loop/loop_stats.h"
#include "sidecar/memory/lock_file.h"
#include "sidecar/memory/previous_instance.h"
#include "sidecar/session/session_protocol.h"
#include "sidecar/store/store.h"
#include "sidecar/transfer/transfers.h"

namespace larder::loop {

class EndedSessions {
 public:
  // `transfers`: null if engines copy by themselves.
  EndedSessions(store::Store& store, transfer::Transfers* transfers, LoopStats& loop_stats,
                const base::Clock& clock)
      : store_(store), transfers_(transfers), loop_stats_(loop_stats), clock_(clock) {}
  EndedSessions(const EndedSessions&) = delete;

  // Takes over the sessions of the previous instance, and returns their numbers.
  std::vector<store::SessionNumber> restore(memory::PreviousInstance& earlier);
  // A session that the store has ended with quarantined grants.
  void add(const session::SessionFacts& facts, memory::LockFile lock, Fd pidfd);
  // Closes the pidfd: an unread pidfd stays readable. False if the session is not here.
  bool forget_pidfd(std::uint32_t number);
  // Gives an attached session the grants of its previous session. Grants that the engine does not
  // list are free. Listed grants stay quarantined under the lock of the previous session.
  void take_over(const session::SessionProtocol& session);
  // The end of a session during the recovery grace voids its announcements: its engine must
  // announce holds and grants again.
  void await_again(const session::SessionProtocol& session);
  // Frees the grants of each session whose writer cannot write any more.
  void release();

  // The number of sessions that count as live: the previous instance admitted its own.
  std::size_t taken() const;
  // Sessions that have not announced holds and grants again.
  const std::set<std::uint32_t>& awaited() const { return awaited_; }
  void stop_awaiting() { awaited_.clear(); }
  // Leaves the lock files of possible writers for the next instance.
  void keep_locks();

 private:
  struct Ended {
    memory::LockFile lock;
    Fd pidfd;  // still watched: a dying process closes the socket before the lock
    memory::LockFile::Note note;
    // Stays until the lock is gone: the engine may not know of a later session yet.
    bool previous_instance = false;
    // The end of kDeviceSettlingMs after the lock was gone; 0: not started.
    std::uint64_t free_at_ms = 0;
  };
  bool may_still_write(std::uint32_t number, Ended& ended) const;

  store::Store& store_;
  transfer::Transfers* const transfers_;
  LoopStats& loop_stats_;
  const base::Clock& clock_;
  // Sessions with quarantined grants, or of the previous instance.
  std::map<std::uint32_t, Ended> ended_;
  // Sessions of `ended_` that have not announced holds and grants again.
  std::set<std::uint32_t> awaited_;
};

}  // namespace larder::loop
