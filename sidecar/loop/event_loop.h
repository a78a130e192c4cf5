// EventLoop: the Sidecar. One thread in run() owns sessions, store and regions. The only locks are
// the lock of the snapshot and the lock of the admin queue.
//
// A turn: accept; at most kMessagesPerTurn messages of each session, and no more than one slice of
// work; one slice of one busy session and of one admin verb; the verification of one chunk. A tick
// (100 ms): events, heartbeats, deadlines, locks of dead sessions, statistics.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/loop/acceptor.h"
#include "sidecar/loop/admin_commands.h"
#include "sidecar/loop/ended_sessions.h"
#include "sidecar/loop/fence_queue.h"
#include "sidecar/loop/loop_parts.h"
#include "sidecar/loop/loop_stats.h"
#include "sidecar/loop/session_table.h"
#include "sidecar/loop/sidecar.h"
#include "sidecar/loop/wakeups.h"
#include "sidecar/loop/warm_restart.h"
#include "sidecar/memory/prefaulter.h"
#include "sidecar/session/reuse_tracker.h"
#include "sidecar/tiering/lower_tiers.h"

namespace larder::loop {

class EventLoop final : public Sidecar {
 public:
  EventLoop(LoopParts parts, const base::Clock& clock);
  ~EventLoop() override;

  Status publish_index() { return restart_.publish_index(); }
  Status run() override;
  void stop() override;
  Status reconfigure(const config::Config& config, const std::string& why,
                     std::uint32_t deadline_ms) override {
    return admin_.reconfigure(config, why, deadline_ms);
  }

  stats::Stats snapshot() const override { return loop_stats_.snapshot(); }
  bool healthy() const override;
  bool ready() const override { return running_.load(); }
  Result<std::uint64_t> drop_namespace(const std::string& id, std::uint32_t deadline_ms) override {
    return admin_.drop_namespace(id, deadline_ms);
  }
  Result<protocol::ActCounts> act(protocol::Verb verb, const std::string& id,
                                  const std::vector<protocol::BlockHash>& hashes,
                                  std::uint32_t deadline_ms) override {
    return admin_.act(verb, id, hashes, deadline_ms);
  }
  Result<std::uint64_t> clear(std::uint32_t deadline_ms) override {
    return admin_.clear(deadline_ms);
  }
  stats::TracePage trace(std::optional<std::uint64_t> from) override {
    return reuse_tracker_.page(from, clock_.now_ms());
  }

 private:
  // A turn.
  Status turn();
  bool work();
  int wait_ms() const;
  void answer_fetches();
  void answer_fences();
  void answer_transfers();
  void handle(const Wakeup& wakeup);

  // The stop.
  void write_rest();
  void leave_files();

  void tick();
  void publish();

  LoopParts parts_;
  const base::Clock& clock_;
  LoopStats loop_stats_;
  stats::Stats& stats_ = loop_stats_.counters();
  store::Store store_;
  session::ReuseTracker reuse_tracker_;
  std::unique_ptr<tiering::LowerTiers> lower_tiers_;  // null without a lower tier
  std::unique_ptr<tiering::PeerHolds> peer_holds_;    // null if no peer is served
  std::unique_ptr<transfer::Transfers> transfers_;    // null if engines copy by themselves
  FenceQueue fences_{[this](std::uint32_t session) { return sessions_.find(session) != nullptr; }};
  EndedSessions ended_;
  WarmRestart restart_;
  const session::SessionServices services_;
  SessionTable sessions_;
  Acceptor acceptor_;
  AdminCommands admin_;
  std::uint64_t ticked_ms_;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> running_{false};
  std::atomic<std::uint64_t> turned_ms_{0};
  memory::Prefaulter prefaulter_;  // last: its threads use the arena
};

}  // namespace larder::loop
