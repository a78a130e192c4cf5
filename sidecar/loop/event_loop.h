// EventLoop: the Sidecar. One thread in run() owns sessions, store and regions; no lock but those of the snapshot and the admin
// queue.
//
// A turn: accept, at most kMessagesPerTurn messages of each session that has some and no longer than a slice; of what takes longer
// one slice (of one session, of one admin verb); one chunk verified. A tick (100 ms): events, heartbeats, deadlines, locks of dead
// sessions, the statistics.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shim/protocol/packet.h"
#include "sidecar/loop/control_queue.h"
#include "sidecar/loop/refused_engines.h"
#include "sidecar/loop/sidecar.h"
#include "sidecar/loop/wakeups.h"
#include "sidecar/memory/arena_file.h"
#include "sidecar/memory/instance_files.h"
#include "sidecar/memory/namespace_journal.h"
#include "sidecar/memory/prefaulter.h"
#include "sidecar/memory/previous_instance.h"
#include "sidecar/session/connection.h"
#include "sidecar/session/grant_ages.h"
#include "sidecar/session/reuse_tracker.h"
#include "sidecar/tiering/lower_tiers.h"
#include "sidecar/tiering/residency_filter.h"

namespace larder::loop {

// What start() made; when the loop ends it unlinks the socket, and the files unless they are kept for the next start.
struct LoopParts {
  config::Config config;
  memory::InstanceLock owner;
  memory::PreviousInstance earlier;
  memory::ArenaFile arena;
  memory::IndexFile index;  // under fresh_index_path() until publish_index()
  memory::NamespaceJournal names;
  store::IndexShape shape{};
  std::vector<tiering::OpenTier> tiers;                        // below the memory, nearest first; none: none is configured
  std::shared_ptr<tiering::ResidencyFilter> residency_filter;  // that engines see; null where there is no tier
  Fd listener, epoll, timer, wake;
  std::uint64_t grant_age_ms = protocol::kGrantAgeMs;
};

class EventLoop final : public Sidecar {
 public:
  EventLoop(LoopParts parts, const base::Clock& clock);
  ~EventLoop() override;

  // The index is whole: gives it its name. From here on a later start goes on from this one.
  Status publish_index();
  Status run() override;
  void stop() override;
  Status reconfigure(const config::Config& config, const std::string& why, std::uint32_t deadline_ms) override;

  stats::Stats snapshot() const override;
  bool healthy() const override;
  bool ready() const override { return running_.load(); }
  // event_loop_admin.cc.
  Result<std::uint64_t> drop_namespace(const std::string& id, std::uint32_t deadline_ms) override;
  Result<protocol::ActCounts> act(protocol::Verb verb, const std::string& id, const std::vector<protocol::BlockHash>& hashes,
                                  std::uint32_t deadline_ms) override;
  Result<std::uint64_t> clear(std::uint32_t deadline_ms) override;
  stats::TracePage trace(std::optional<std::uint64_t> from) override { return reuse_tracker_.page(from, clock_.now_ms()); }

 private:
  // Sessions (event_loop.cc).
  Status turn();
  bool work();
  bool go_on_with_a_session();
  bool busy(std::uint32_t number) const;
  int wait_ms() const;
  void answer_fetches();
  void answer_later(std::uint32_t session, std::vector<std::byte> packet);
  Status answer_fence(session::Connection& connection, session::Reply reply);
  void answer_fences();
  void answer_transfers();
  void note_copies(const session::Connection& connection);
  void handle(const Wakeup& wakeup);
  void accept_all();
  void pause_accepting(int error);
  // Takes the socket; on an error, only if it was the last step that failed.
  Status admit(Fd& socket);
  std::size_t sessions_taken() const;
  void receive(std::uint32_t number);
  // Takes the packet's descriptors.
  Status answer(session::Connection& connection, protocol::Packet& packet);
  Status deliver(session::Connection& connection, session::Reply reply);
  Status send(session::Connection& connection, std::vector<std::byte> packet, std::span<const int> fds = {});
  void attached(session::Connection& connection);
  void flush(std::uint32_t number);
  void fail_session(std::uint32_t number, const Status& why);

  // Sessions that end or have ended (event_loop_ended.cc).
  void end_session(std::uint32_t number, const std::string& why);
  void process_ended(std::uint32_t number);
  void take_over(const session::SessionProtocol& session);
  void await_again(const session::SessionProtocol& session);
  void release_ended();

  // What people ask (event_loop_admin.cc).
  void drop_slice(store::Drop& drop, tiering::LowerTierDrop& below);

  // A warm restart, and what is left for the next one (event_loop_restart.cc).
  void restore();
  void check_settled(std::uint64_t now_ms, bool slept);
  void settle();
  void note_namespace(const session::Reply::Opened& opened);
  void say_goodbye();
  void write_rest();
  void leave_files();
  void remove_files();

  // What happens with time (event_loop_tick.cc).
  void tick();
  void check_session(session::Connection& connection, std::uint64_t now_ms, bool slept);
  void check_heartbeat(session::Connection& connection, std::uint64_t now_ms);
  void ask_about_grants(session::Connection& connection, std::uint64_t now_ms, bool slept);
  void drain_events(session::Connection& connection);
  void publish();
  void show_way(stats::Stats& view, const std::string& name) const;
  static void show_gpu(stats::Stats& view, const protocol::SessionRegion& region);
  void note_fallback(const std::string& what, const std::string& why);

  LoopParts parts_;
  const base::Clock& clock_;
  stats::Stats stats_;
  RefusedEngines refused_;
  store::Store store_;
  session::ReuseTracker reuse_tracker_;
  std::unique_ptr<tiering::LowerTiers> lower_tiers_;  // null: no tier below the memory
  std::unique_ptr<transfer::Transfers> transfers_;    // null: engines copy by themselves
  std::map<std::uint32_t, std::unique_ptr<session::Connection>> connections_;
  std::deque<std::uint32_t> busy_;  // sessions in the midst of a message, and some that have ended since
  struct Fence {
    std::uint32_t session;
    std::vector<std::byte> packet;
    std::vector<tiering::PendingDrop> drops;
    std::uint64_t shared_by_ms = 0;  // a shared tier's word is not waited for any longer
  };
  std::deque<Fence> fences_;  // answers that wait for the tiers' word
  struct Ended {
    memory::LockFile lock;
    Fd pidfd;  // still watched: a dying process closes its socket before its lock
    memory::LockFile::Note note;
    bool previous_instance = false;  // stays until its lock is gone: until then its engine may not know of a later session
    std::uint64_t free_at_ms = 0;    // where its device wrote for it and its lock is gone; 0: not yet
  };
  bool may_still_write(std::uint32_t number, Ended& ended) const;
  std::map<std::uint32_t, Ended> ended_;  // sessions whose grants are quarantined, or that an earlier life left
  std::set<std::uint32_t> awaited_;       // of these, those that have not announced their holds and grants again
  std::uint64_t settling_from_ms_ = 0;
  // Since publish() a session has come, or gone, or left nothing any more: others see it before the next tick.
  bool shows_now_ = false;
  bool published_ = false;
  session::GrantAges grant_ages_{parts_.grant_age_ms};
  std::uint32_t next_session_ = 1;
  std::uint64_t started_ms_;
  std::uint64_t ticked_ms_;
  bool accepting_ = true;
  ControlQueue control_;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> running_{false};
  std::atomic<std::uint64_t> turned_ms_{0};
  mutable std::mutex snapshot_mutex_;
  stats::Stats snapshot_;
  memory::Prefaulter prefaulter_;  // last: its threads use the arena
};

}  // namespace larder::loop
