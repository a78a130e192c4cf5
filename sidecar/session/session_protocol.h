// SessionProtocol: the state machine of one session, from packet to reply. It sees no socket, so
// tests and fuzzers drive it directly.
//
//   new --HELLO--> welcomed --ATTACHED--> attached --(a request, or a message with no answer)*-->
//
// Any other packet ends the session: handle() returns the fault, and the caller sends ERROR and
// closes. A fault of one engine costs no other session. Owned by the thread of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/protocol/codec.h"
#include "sidecar/base/clock.h"
#include "sidecar/session/grant_inquiry.h"
#include "sidecar/session/listener.h"
#include "sidecar/session/reuse_tracker.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/promoter.h"
#include "sidecar/tiering/tier_probe.h"
#include "sidecar/transfer/transfers.h"

namespace larder::session {

struct SessionFacts {
  std::uint32_t number = 0;
  Peer peer = {};
  std::uint64_t token = 0;
  std::uint64_t epoch = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t arena_page_bytes = 0;
  std::uint64_t residency_bytes = 0;  // the size of the residency filter; 0 without a lower tier
};

struct Reply {
  std::vector<std::byte> packet;  // empty: the message has no reply
  bool with_regions = false;      // WELCOME: four descriptors go along
  bool with_residency = false;    // and the residency filter as a fifth
  // A namespace that the session may store into now, and the OPEN_NAMESPACE packet.
  struct Opened {
    store::NamespaceSpec spec;
    std::uint32_t handle;
    std::vector<std::byte> packet;
  };
  std::optional<Opened> opened = {};
  // A namespace: the reply waits until pending drops of the namespace are done in lower tiers too.
  std::optional<std::uint32_t> fence = {};
};

std::vector<std::byte> error_packet(const Status& status);
std::vector<std::byte> fetched_packet(const tiering::Promoter::Answer& answer);
std::vector<std::byte> probed_packet(const tiering::TierProbes::Answer& answer);
std::vector<std::byte> transfer_packet(const transfer::Answer& answer);

// The parts of larderd that all sessions share. All of them outlive the sessions.
struct SessionServices {
  store::Store& store;
  stats::Stats& stats;
  const base::Clock& clock;
  // Reply to FETCH and PROBE later. Null without a lower tier, and without a shared tier.
  tiering::Promoter* promoter = nullptr;
  tiering::TierProbes* tier_probes = nullptr;
  // Hears of stores and drops; null: no estimate of the reuse.
  ReuseTracker* reuse_tracker = nullptr;
  // Replies to EXPORT and WITHDRAW later, and to COPY by a flag.
  // Null if engines copy by themselves.
  transfer::Transfers* transfers = nullptr;
};

class SessionProtocol {
 public:
  enum class State { kNew, kWelcomed, kAttached };

  // `region` outlives this object. `lock_held`: whether the engine holds its lock file.
  SessionProtocol(const SessionFacts& facts, const protocol::SessionRegion& region,
                  const SessionServices& services, std::function<bool()> lock_held);

  // Handles one packet. Of a large request only the first slice is done: the reply is still empty
  // and the session is busy. REQUIRES: !busy().
  Result<Reply> handle(std::span<const std::byte> packet, std::vector<Fd> fds = {});
  bool busy() const { return work_ != nullptr; }
  // Runs the next slice. The last slice returns the reply, if the message has one. REQUIRES:
  // busy().
  Result<Reply> go_on();

  State state() const { return state_; }
  const SessionFacts& facts() const { return facts_; }
  const std::string& engine() const { return engine_; }
  // The previous session, as HELLO and ATTACHED named it: token and epoch, or 0, and the grants
  // that the engine still writes. A list of full length may be incomplete.
  std::uint64_t previous_session() const { return previous_session_; }
  std::uint64_t previous_epoch() const { return previous_epoch_; }
  const std::vector<protocol::SlotRef>& still_written() const { return still_written_; }
  bool still_written_is_complete() const {
    return still_written_.size() < protocol::kMaxGrantsPerMessage;
  }
  GrantInquiry& inquiry() { return inquiry_; }
  // Open handles, oldest first. A handle that two requests opened appears twice.
  const std::vector<std::uint32_t>& namespaces() const { return namespaces_; }
  // Logs once that the session has attached: with the first namespace, or when the loop calls.
  void tell_attached();
  bool attach_logged() const { return attach_logged_; }
  // Called at the end of the session.
  void leave_namespaces();

 private:
  Result<Reply> hello(protocol::Decoder& decoder);
  Result<Reply> attached(protocol::Decoder& decoder);
  Result<Reply> reserve(protocol::Decoder& decoder);
  Result<Reply> commit(protocol::Decoder& decoder);
  Result<Reply> disown(protocol::Decoder& decoder);
  Result<Reply> bad(protocol::Decoder& decoder);
  Result<Reply> still_writing(protocol::Decoder& decoder);
  Result<Reply> act(protocol::Decoder& decoder);
  Result<Reply> fetch(protocol::Decoder& decoder);
  Result<Reply> end_fetch(protocol::Decoder& decoder);
  Result<Reply> probe(protocol::Decoder& decoder);
  // session_namespaces.cc.
  bool has_open(std::uint32_t handle) const;
  Result<bool> may_use(const char* message, std::uint32_t handle) const;
  Result<Reply> open_namespace(protocol::Decoder& decoder, std::span<const std::byte> packet);
  bool make_room_on(store::Drop& room);
  Result<Reply> refuse_namespace(std::uint32_t request, const Status& why);
  Reply enter_namespace(std::uint32_t request, std::uint32_t handle, const std::string& difference,
                        Reply::Opened opened);
  Result<Reply> close_namespace(protocol::Decoder& decoder);
  Result<Reply> drop_namespace(protocol::Decoder& decoder);
  // session_transfer.cc.
  Result<Reply> export_memory(protocol::Decoder& decoder, std::vector<Fd> fds);
  Result<Reply> withdraw(protocol::Decoder& decoder);
  Result<Reply> copy(protocol::Decoder& decoder);
  Status release_copies(protocol::MessageType type, std::uint32_t slot, std::uint64_t generation);
  // Runs one slice. Empty: more slices follow.
  using Work = std::function<std::optional<Result<Reply>>()>;
  Result<Reply> begin(Work work);

  SessionFacts facts_;
  const protocol::SessionRegion& region_;
  store::Store& store_;
  stats::Stats& stats_;
  const base::Clock& clock_;
  std::function<bool()> lock_held_;
  tiering::Promoter* promoter_;
  tiering::TierProbes* tier_probes_;
  ReuseTracker* reuse_tracker_;
  transfer::Transfers* transfers_;
  State state_ = State::kNew;
  bool attach_logged_ = false;
  Work work_;  // the rest of the last message
  std::string engine_;
  std::uint64_t previous_session_ = 0, previous_epoch_ = 0;
  std::vector<protocol::SlotRef> still_written_;
  GrantInquiry inquiry_;
  std::vector<std::uint32_t> namespaces_, opened_by_;  // handles, and the requests that opened them
  bool has_closed_ = false;  // whether the session ever closed a namespace
  // Reused, to save an allocation for each message.
  std::vector<protocol::BlockHash> hashes_, parents_;
  std::vector<protocol::Grant> grants_;
  std::vector<protocol::CommitRecord> commits_;
  std::vector<protocol::SlotRef> slots_;
};

}  // namespace larder::session
