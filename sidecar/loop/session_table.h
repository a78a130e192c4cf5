// SessionTable: the live sessions of engines. It reads their messages, sends the answers and ends
// the sessions.
//
// A message or a failed send may end a session at any time, so callers keep its number. Owned by
// the thread of the loop. All arguments of the constructor outlive this object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "shim/protocol/packet.h"
#include "sidecar/loop/ended_sessions.h"
#include "sidecar/loop/fence_queue.h"
#include "sidecar/loop/loop_parts.h"
#include "sidecar/loop/loop_stats.h"
#include "sidecar/loop/warm_restart.h"
#include "sidecar/session/connection.h"
#include "sidecar/session/grant_ages.h"
#include "sidecar/tiering/lower_tiers.h"

namespace larder::loop {

class SessionTable {
 public:
  struct Neighbours {
    LoopParts& parts;
    session::SessionServices services;  // with a reuse tracker
    tiering::LowerTiers* lower_tiers;   // null without a lower tier
    FenceQueue& fences;
    EndedSessions& ended;
    WarmRestart& restart;
    LoopStats& loop_stats;
  };
  explicit SessionTable(const Neighbours& neighbours);
  SessionTable(const SessionTable&) = delete;

  void insert(std::unique_ptr<session::Connection> connection);
  // Null if the session has ended.
  const session::Connection* find(std::uint32_t number) const;
  std::size_t size() const { return connections_.size(); }
  // Calls `visit` for each session, by number.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [number, connection] : connections_)
      visit(static_cast<const session::Connection&>(*connection));
  }

  // Handles waiting messages: at most kMessagesPerTurn, and no more than one slice of work.
  void receive(std::uint32_t number);
  // Runs one slice of one busy session. False if no session is busy.
  bool go_on();
  // Whether the session is in the middle of a message.
  bool busy(std::uint32_t number) const;
  // Sends queued packets while the socket has room.
  void flush(std::uint32_t number);
  // An answer that comes later than its message.
  // The methods of a session do nothing if it has ended.
  void answer_later(std::uint32_t number, std::vector<std::byte> packet);
  void send_transfer(const transfer::Answer& answer);

  // Ends a session for a reason, which the engine gets.
  void fail(std::uint32_t number, const Status& why);
  // Ends a session after its process. The kernel has released the locks of the process before.
  void process_ended(std::uint32_t number);

  // Each tick: events, heartbeats and overdue grants of all sessions (session_ticks.cc). `slept`:
  // larderd was stopped, and engines are not to blame for the time.
  void tick(std::uint64_t now_ms, bool slept);
  // At a stop: tells engines that their sessions end, after handling the messages that engines sent
  // before. Grants that engines still write stay with them in the next instance.
  void goodbye();
  // Leaves the lock files of engines that may still read or write for the next instance.
  void keep_locks();

 private:
  // Sends the packet, or queues it until the socket has room.
  Status send(session::Connection& connection, std::vector<std::byte> packet,
              std::span<const int> fds = {});
  // Handles one message. Takes the descriptors of the packet.
  Status answer(session::Connection& connection, protocol::Packet& packet);
  Status deliver(session::Connection& connection, session::Reply reply);
  Status answer_fence(session::Connection& connection, session::Reply reply);
  void attached(session::Connection& connection);
  void take_over(const session::SessionProtocol& session);
  void note_copies(const session::Connection& connection);
  // Ends a session. `why` goes to the log; empty if the log has the reason.
  void end(std::uint32_t number, const std::string& why);
  void check_session(session::Connection& connection, std::uint64_t now_ms, bool slept);
  void check_heartbeat(session::Connection& connection, std::uint64_t now_ms);
  void ask_about_grants(session::Connection& connection, std::uint64_t now_ms, bool slept);
  // Reads the events that the engine has written into its region. See EventReader::drain().
  void drain_events(session::Connection& connection, session::EventReader::Unfinished unfinished);

  LoopParts& parts_;
  store::Store& store_;
  stats::Stats& stats_;
  const base::Clock& clock_;
  session::ReuseTracker& reuse_tracker_;
  transfer::Transfers* const transfers_;
  tiering::LowerTiers* const lower_tiers_;
  FenceQueue& fences_;
  EndedSessions& ended_;
  WarmRestart& restart_;
  LoopStats& loop_stats_;
  std::map<std::uint32_t, std::unique_ptr<session::Connection>> connections_;
  session::GrantAges grant_ages_{parts_.grant_age_ms};
  // Sessions in the middle of a message; some may have ended since.
  std::deque<std::uint32_t> busy_;
};

}  // namespace larder::loop
