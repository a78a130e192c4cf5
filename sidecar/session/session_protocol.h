// SessionProtocol: one session's state machine, from packet to answer. It sees no socket, so tests and fuzzers drive it directly.
//
//   new --HELLO--> welcomed --ATTACHED--> attached --(a request, or a message with no answer)*-->
//
// Anything else ends the session: handle() returns why, the caller sends ERROR and closes. Owned by the loop's thread.
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
  std::uint64_t below_bytes = 0;  // 0: there is no tier
};

struct Reply {
  std::vector<std::byte> packet;  // empty: the message has no answer
  bool with_regions = false;      // WELCOME: the four descriptors go with it
  bool with_below = false;        // and a fifth
  // What the session asked for and may store in now, and the packet that said so.
  struct Opened {
    store::NamespaceSpec spec;
    std::uint32_t handle;
    std::vector<std::byte> packet;
  };
  std::optional<Opened> opened = {};
  // A namespace: it goes out once drops of it that are under way are done below memory, too.
  std::optional<std::uint32_t> fence = {};
};

std::vector<std::byte> error_packet(const Status& status);
std::vector<std::byte> fetched_packet(const tiering::Promoter::Answer& answer);
std::vector<std::byte> probed_packet(const tiering::TierProbes::Answer& answer);
std::vector<std::byte> transfer_packet(const transfer::Answer& answer);

class SessionProtocol {
 public:
  enum class State { kNew, kWelcomed, kAttached };

  // All of them outlive it. `lock_held` tells whether the engine has its lock file. `promotions`: nullptr where there is no tier,
  // `looks`: where none is shared; they answer FETCH and PROBE later.
  // `demand` is told what is stored and dropped, where it is given. `transfers`: nullptr where engines copy by themselves; it answers EXPORT and WITHDRAW
  // later, and COPY by a flag.
  SessionProtocol(const SessionFacts& facts, const protocol::SessionRegion& region, store::Store& store, stats::Stats& stats,
                  const base::Clock& clock, std::function<bool()> lock_held, tiering::Promoter* promotions = nullptr,
                  tiering::TierProbes* probes = nullptr, ReuseTracker* demand = nullptr,
                  transfer::Transfers* transfers = nullptr);

  // Where a message asks for much, only its first slice is done, with no reply yet, and the session is busy. REQUIRES: !busy().
  Result<Reply> handle(std::span<const std::byte> packet, std::vector<Fd> fds = {});
  bool busy() const { return work_ != nullptr; }
  // The next slice. With the last one comes the reply, if the message has one. REQUIRES: busy().
  Result<Reply> go_on();

  State state() const { return state_; }
  const SessionFacts& facts() const { return facts_; }
  const std::string& engine() const { return engine_; }
  // What its HELLO and ATTACHED said of the session before: its token and epoch or 0, and which of its grants are still written. A
  // full list may have been cut.
  std::uint64_t previous_session() const { return previous_session_; }
  std::uint64_t previous_epoch() const { return previous_epoch_; }
  const std::vector<protocol::SlotRef>& still_written() const { return still_written_; }
  bool still_written_is_complete() const { return still_written_.size() < protocol::kMaxGrantsPerMessage; }
  GrantInquiry& inquiry() { return inquiry_; }
  // Handles that it has open, oldest first; one twice where two requests opened it.
  const std::vector<std::uint32_t>& namespaces() const { return namespaces_; }
  // Writes that it has attached into the log, once: with its first namespace, or when the loop says so.
  void tell_attached();
  bool told() const { return told_; }
  // The session is over.
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
  Reply enter_namespace(std::uint32_t request, std::uint32_t handle, const std::string& difference, Reply::Opened opened);
  Result<Reply> close_namespace(protocol::Decoder& decoder);
  Result<Reply> drop_namespace(protocol::Decoder& decoder);
  // session_transfer.cc.
  Result<Reply> export_memory(protocol::Decoder& decoder, std::vector<Fd> fds);
  Result<Reply> withdraw(protocol::Decoder& decoder);
  Result<Reply> copy(protocol::Decoder& decoder);
  Status release_copies(protocol::MessageType type, std::uint32_t slot, std::uint64_t generation);
  // One slice; nothing: there are more.
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
  bool told_ = false;
  Work work_;  // that the last message began
  std::string engine_;
  std::uint64_t previous_session_ = 0, previous_epoch_ = 0;
  std::vector<protocol::SlotRef> still_written_;
  GrantInquiry inquiry_;
  std::vector<std::uint32_t> namespaces_, opened_by_;  // handles, and the requests that opened them
  bool has_closed_ = false;                            // any of its namespaces
  std::vector<protocol::BlockHash> hashes_;            // kept, so that a message costs no allocation of its own
  std::vector<protocol::Grant> grants_;
  std::vector<protocol::CommitRecord> commits_;
  std::vector<protocol::SlotRef> slots_;
};

}  // namespace larder::session
