// WarmRestart: takes over the files of the previous instance, waits for its engines, and leaves
// files for the next instance.
//
// A death at any moment leaves one whole index for the next start. Owned by the thread of the loop.
// All arguments of the constructor outlive this object.
#pragma once

#include <cstdint>

#include "sidecar/base/clock.h"
#include "sidecar/loop/ended_sessions.h"
#include "sidecar/loop/loop_parts.h"
#include "sidecar/loop/loop_stats.h"
#include "sidecar/session/session_protocol.h"
#include "sidecar/store/store.h"

namespace larder::loop {

class WarmRestart {
 public:
  WarmRestart(LoopParts& parts, store::Store& store, EndedSessions& ended, LoopStats& loop_stats,
              const base::Clock& clock)
      : parts_(parts), store_(store), ended_(ended), loop_stats_(loop_stats), clock_(clock) {}
  WarmRestart(const WarmRestart&) = delete;

  // Takes over the chunks and sessions of the previous instance, of whose arena `touched_bytes` are
  // present. Returns the highest number of a session; 0 if there is none.
  // REQUIRES: an earlier index.
  std::uint32_t restore(std::uint64_t touched_bytes);
  // Renames the new, whole index to its final name, and ends the previous index only then.
  Status publish_index();
  bool published() const { return published_; }
  // Ends the recovery grace once every session of the previous instance has announced holds and
  // grants again, or after kRecoveryGraceMs. Until then the store hands on no slot that held a
  // chunk.
  // `slept`: larderd was stopped, and the wait starts anew.
  void check_recovery_grace(std::uint64_t now_ms, bool slept);
  // Called before the engine can store into the namespace: the next larderd needs the text and
  // layout for every chunk.
  void note_namespace(const session::Reply::Opened& opened);
  // At the end: leaves the files of the newest whole index, or removes all files.
  void leave();
  void remove();

 private:
  void end_grace();

  LoopParts& parts_;
  store::Store& store_;
  EndedSessions& ended_;
  LoopStats& loop_stats_;
  stats::Stats& stats_ = loop_stats_.counters();
  const base::Clock& clock_;
  std::uint64_t grace_from_ms_ = 0;
  bool published_ = false;
};

}  // namespace larder::loop
