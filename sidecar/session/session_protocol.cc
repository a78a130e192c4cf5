#include "sidecar/session/session_protocol.h"

#include <algorithm>

#include "shim/base/utf8.h"
#include "shim/protocol/version.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/session/chunk_verbs.h"

namespace larder::session {

using protocol::Decoder;
using protocol::Encoder;
using protocol::MessageType;

namespace {

std::vector<std::byte> finish(Encoder& encoder) {
  const auto packet = encoder.packet();
  return {packet.begin(), packet.end()};
}

// One list of all messages. An empty name marks an unknown type, for example of a newer minor
// version.
std::string_view type_name(MessageType type) {
  switch (type) {
    case MessageType::kHello: return "HELLO";
    case MessageType::kWelcome: return "WELCOME";
    case MessageType::kAttached: return "ATTACHED";
    case MessageType::kOpenNamespace: return "OPEN_NAMESPACE";
    case MessageType::kNamespace: return "NAMESPACE";
    case MessageType::kReserve: return "RESERVE";
    case MessageType::kGranted: return "GRANTED";
    case MessageType::kCommit: return "COMMIT";
    case MessageType::kDisown: return "DISOWN";
    case MessageType::kBad: return "BAD";
    case MessageType::kDropNamespace: return "DROP_NAMESPACE";
    case MessageType::kError: return "ERROR";
    case MessageType::kAskGrants: return "ASK_GRANTS";
    case MessageType::kStillWriting: return "STILL_WRITING";
    case MessageType::kAct: return "ACT";
    case MessageType::kActed: return "ACTED";
    case MessageType::kFetch: return "FETCH";
    case MessageType::kFetched: return "FETCHED";
    case MessageType::kFetchEnd: return "FETCH_END";
    case MessageType::kProbe: return "PROBE";
    case MessageType::kProbed: return "PROBED";
    case MessageType::kExport: return "EXPORT";
    case MessageType::kExported: return "EXPORTED";
    case MessageType::kWithdraw: return "WITHDRAW";
    case MessageType::kWithdrawn: return "WITHDRAWN";
    case MessageType::kCopy: return "COPY";
    case MessageType::kCloseNamespace: return "CLOSE_NAMESPACE";
  }
  return "";
}

Status malformed(MessageType type, const std::string& why) {
  return {Code::kInvalidArgument, std::string(type_name(type)) + ": " + why};
}

Status too_many(MessageType type, std::uint32_t count) {
  return malformed(type, "count " + std::to_string(count) + " is over the limit or the packet");
}

Status unknown(MessageType type) {
  return {Code::kInvalidArgument,
          "message type " + std::to_string(static_cast<unsigned>(type)) + " is unknown"};
}

// The text names the state by the message that would have been right: "RESERVE where ATTACHED was
// expected".
Status unexpected(MessageType type, std::string_view expected) {
  return {Code::kFailedPrecondition,
          std::string(type_name(type)) + " where " + std::string(expected) + " was expected"};
}

tiering::Promoter::Answer nothing_fetched(std::uint32_t session, std::uint32_t request) {
  return {session, request, {0, static_cast<std::uint32_t>(protocol::FetchEnd::kAbsent), 0, 0, 0}};
}

Status wrong_version(std::uint32_t major) {
  return {Code::kUnsupported, "protocol version " + std::to_string(major) +
                                  " is not served: this larderd speaks " +
                                  std::to_string(protocol::kVersionMajor) + "." +
                                  std::to_string(protocol::kVersionMinor)};
}

// All limits and sizes that an engine needs come from here, so engine and larderd may have
// different builds.
protocol::Welcome welcome_of(const SessionFacts& facts, std::uint64_t capabilities) {
  protocol::Welcome welcome{};
  welcome.version_major = protocol::kVersionMajor;
  welcome.version_minor = protocol::kVersionMinor;
  welcome.capabilities = capabilities;
  welcome.epoch = facts.epoch;
  welcome.session_token = facts.token;
  welcome.session_number = facts.number;
  welcome.heartbeat_interval_ms = protocol::kHeartbeatIntervalMs;
  welcome.heartbeat_timeout_ms = protocol::kHeartbeatTimeoutMs;
  welcome.max_grants = protocol::kMaxGrants;
  welcome.arena_bytes = facts.arena_bytes;
  welcome.index_bytes = facts.index_bytes;
  welcome.session_bytes = sizeof(protocol::SessionRegion);
  welcome.arena_page_bytes = facts.arena_page_bytes;
  return welcome;
}

// The records behind the head of a list.
template <typename Record>
Status read_list(Decoder& decoder, std::vector<Record>& records) {
  protocol::SlotList list{};
  if (!decoder.read(list)) return malformed(decoder.type(), "shorter than its fixed part");
  if (!decoder.read_all(list.count, protocol::kMaxGrantsPerMessage, records))
    return too_many(decoder.type(), list.count);
  return {};
}

Status read_reserve(Decoder& decoder, protocol::Reserve& reserve,
                    std::vector<protocol::BlockHash>& hashes,
                    std::vector<protocol::BlockHash>& parents) {
  if (!decoder.read(reserve)) return malformed(decoder.type(), "shorter than its fixed part");
  if (!decoder.read_all(reserve.count, protocol::kMaxKeysPerReserve, hashes))
    return too_many(decoder.type(), reserve.count);
  if (reserve.parents != 0 && reserve.parents != reserve.count)
    return malformed(decoder.type(), "parents " + std::to_string(reserve.parents) +
                                         " is neither 0 nor the count " +
                                         std::to_string(reserve.count));
  if (!decoder.read_all(reserve.parents, protocol::kMaxKeysPerReserve, parents))
    return malformed(decoder.type(),
                     "parents " + std::to_string(reserve.parents) + " is over the packet");
  return {};
}

}  // namespace

std::vector<std::byte> error_packet(const Status& status) {
  // 4,096 bytes, so that an ERROR always fits one packet, whatever names the text quotes.
  const std::string text(cut_text(status.text(), 4096));
  Encoder encoder(MessageType::kError, 0);
  encoder
      .append(protocol::Error{static_cast<std::uint32_t>(status.code()),
                              static_cast<std::uint32_t>(text.size())})
      .append_text(text);
  return finish(encoder);
}

SessionProtocol::SessionProtocol(const SessionFacts& facts, const protocol::SessionRegion& region,
                                 const SessionServices& services, std::function<bool()> lock_held)
    : facts_(facts),
      region_(region),
      store_(services.store),
      stats_(services.stats),
      clock_(services.clock),
      lock_held_(std::move(lock_held)),
      promoter_(services.promoter),
      tier_probes_(services.tier_probes),
      reuse_tracker_(services.reuse_tracker),
      transfers_(services.transfers) {}

Result<Reply> SessionProtocol::handle(std::span<const std::byte> packet, std::vector<Fd> fds) {
  Result<Decoder> decoder = Decoder::open(packet);
  if (!decoder.ok()) return decoder.status();
  const MessageType type = decoder->type();
  // Unexpected descriptors are a fault: no other message has a use for them.
  if (!fds.empty() && type != MessageType::kExport)
    return Status(Code::kInvalidArgument, "engines may send descriptors only with EXPORT");
  if (type_name(type).empty()) return unknown(type);
  if (state_ == State::kNew && type == MessageType::kHello) return hello(*decoder);
  if (state_ == State::kWelcomed && type == MessageType::kAttached) return attached(*decoder);
  if (state_ == State::kAttached) {
    switch (type) {
      // Needs the raw packet too, for the journal.
      case MessageType::kOpenNamespace: return open_namespace(*decoder, packet);
      case MessageType::kReserve: return reserve(*decoder);
      case MessageType::kCommit: return commit(*decoder);
      case MessageType::kDisown: return disown(*decoder);
      case MessageType::kBad: return bad(*decoder);
      case MessageType::kStillWriting: return still_writing(*decoder);
      case MessageType::kDropNamespace: return drop_namespace(*decoder);
      case MessageType::kAct: return act(*decoder);
      case MessageType::kFetch: return fetch(*decoder);
      case MessageType::kFetchEnd: return end_fetch(*decoder);
      case MessageType::kProbe: return probe(*decoder);
      case MessageType::kExport: return export_memory(*decoder, std::move(fds));
      case MessageType::kWithdraw: return withdraw(*decoder);
      case MessageType::kCopy: return copy(*decoder);
      case MessageType::kCloseNamespace: return close_namespace(*decoder);
      default: break;
    }
  }
  // By State.
  static constexpr std::string_view kExpected[] = {"HELLO", "ATTACHED", "a request"};
  return unexpected(type, kExpected[static_cast<int>(state_)]);
}

Result<Reply> SessionProtocol::begin(Work work) {
  work_ = std::move(work);
  return go_on();
}

Result<Reply> SessionProtocol::go_on() {
  // The work may refer to members of this session only: the packet is gone after the first slice.
  std::optional<Result<Reply>> reply = work_();
  if (!reply) return Reply{};
  work_ = nullptr;
  return *std::move(reply);
}

Result<Reply> SessionProtocol::hello(Decoder& decoder) {
  // The version comes first and is read alone: a HELLO of another version may have another size.
  Decoder version_reader = decoder;
  std::uint32_t major = 0;
  if (!version_reader.read(major)) return malformed(decoder.type(), "shorter than its version");
  if (major != protocol::kVersionMajor) return wrong_version(major);
  protocol::Hello hello{};
  if (!decoder.read(hello)) return malformed(decoder.type(), "shorter than its fixed part");
  // The name appears in logs and in the status. short_text() ends at the first zero byte or at the
  // field's end.
  engine_ = protocol::short_text(hello.engine);
  // Only noted here. The loop ends the previous session once ATTACHED has named the grants that the
  // engine still writes.
  previous_session_ = hello.previous_session;
  previous_epoch_ = hello.previous_epoch;
  state_ = State::kWelcomed;

  protocol::Welcome welcome =
      welcome_of(facts_, protocol::kCapabilityAct |
                             (promoter_ != nullptr ? protocol::kCapabilityResidency : 0) |
                             (tier_probes_ != nullptr ? protocol::kCapabilityShared : 0) |
                             (transfers_ != nullptr ? protocol::kCapabilityTransfer : 0));
  // The filter is a fifth descriptor. An engine that does not announce the capability would not
  // expect it.
  const bool residency =
      promoter_ != nullptr && (hello.capabilities & protocol::kCapabilityResidency) != 0;
  if (residency) welcome.residency_bytes = facts_.residency_bytes;
  Encoder encoder(MessageType::kWelcome, decoder.request());
  encoder.append(welcome);
  return Reply{finish(encoder), true, residency};
}

// A reattaching engine names its previous session, and the previous session ends. Grants outside of
// the engine's list are free. Listed grants wait for COMMIT or DISOWN in the new session, or for
// the lock of the previous session.
Result<Reply> SessionProtocol::attached(Decoder& decoder) {
  if (Status status = read_list(decoder, still_written_); !status.ok()) return status;
  // The lock tells the death of the engine, also in another container. A session without a lock
  // could never be cleaned up.
  if (!lock_held_())
    return Status(Code::kFailedPrecondition,
                  "ATTACHED: the lock file is not locked (F_SETLK on the descriptor of WELCOME)");
  // Shares of the arena bound one engine: a broken engine cannot hold all slots and starve the
  // others.
  store_.sessions().add(facts_.number, region_,
                        {facts_.arena_bytes / protocol::kSessionGrantedShare,
                         facts_.arena_bytes / protocol::kSessionHeldShare});
  state_ = State::kAttached;
  return Reply{};
}

Result<Reply> SessionProtocol::reserve(Decoder& decoder) {
  const std::uint64_t start_ns = clock_.now_ns();
  protocol::Reserve reserve{};
  if (Status status = read_reserve(decoder, reserve, hashes_, parents_); !status.ok())
    return status;
  const Result<bool> open = may_use("RESERVE", reserve.namespace_handle);
  if (!open.ok()) return open.status();
  // A RESERVE of no keys is a question about the namespace: any shard and group will do.
  const bool reserves = *open && reserve.count != 0;
  if (reserves &&
      store_.namespaces().at(reserve.namespace_handle).layout(reserve.shard, reserve.group) ==
          nullptr)
    return malformed(decoder.type(), "the namespace has no shard " + std::to_string(reserve.shard) +
                                         " of group " + std::to_string(reserve.group) +
                                         ", or no engine has reported the layout");
  // Refused by default: all keys of a closed namespace.
  grants_.assign(hashes_.size(),
                 {static_cast<std::uint32_t>(protocol::GrantStatus::kRefused), 0, 0, 0});
  if (reserves)
    store_.reserve(facts_.number, {{}, reserve.namespace_handle, reserve.shard, reserve.group},
                   hashes_, grants_, parents_);
  if (reserves && reuse_tracker_ != nullptr)
    reuse_tracker_->stored(reserve.namespace_handle, hashes_);
  Encoder encoder(MessageType::kGranted, decoder.request());
  encoder.append(protocol::Granted{reserve.count, 0})
      .append_all(std::span<const protocol::Grant>(grants_));
  // Without the time in the socket: the metric shows the work of the loop.
  stats_.reserve.record(clock_.now_ns() - start_ns);
  Reply reply{finish(encoder)};
  // An empty RESERVE is a question: the reply waits until drops of the namespace are done.
  if (*open && !reserves) reply.fence = reserve.namespace_handle;
  return reply;
}

Result<Reply> SessionProtocol::commit(Decoder& decoder) {
  if (Status status = read_list(decoder, commits_); !status.ok()) return status;
  store_.begin_uses();
  for (const protocol::CommitRecord& record : commits_) {
    // Checked for each record before its commit: the records before a faulty one stay committed,
    // and the end of the session frees the other grants.
    if (Status status = release_copies(decoder.type(), record.slot, record.generation);
        !status.ok())
      return status;
    store_.commit(facts_.number, record);
  }
  return Reply{};
}

Result<Reply> SessionProtocol::disown(Decoder& decoder) {
  if (Status status = read_list(decoder, slots_); !status.ok()) return status;
  for (const protocol::SlotRef& slot : slots_) {
    if (Status status = release_copies(decoder.type(), slot.slot, slot.generation); !status.ok())
      return status;
    store_.disown(facts_.number, slot);
  }
  return Reply{};
}

Result<Reply> SessionProtocol::bad(Decoder& decoder) {
  if (Status status = read_list(decoder, slots_); !status.ok()) return status;
  // Bounded by log_from(): an engine with a broken copy path reports every loaded chunk.
  base::log_from(log_source(facts_.peer, "BAD"), base::LogLevel::kWarning,
                 "session " + std::to_string(facts_.number) + ": " + std::to_string(slots_.size()) +
                     " chunks did not match their checksum and are dropped");
  // In slices: a verification reads a whole chunk, and the loop serves other sessions in between.
  return begin(
      [this, slots = slots_, next = std::size_t{0}]() mutable -> std::optional<Result<Reply>> {
        const std::uint64_t end = store_.effort() + store::Store::kSliceEffort;
        while (next < slots.size() && store_.effort() < end) store_.report_bad(slots[next++]);
        if (next < slots.size()) return std::nullopt;
        return Reply{};
      });
}

// Without a reply. An answer about grants that no inquiry asked about has no effect.
Result<Reply> SessionProtocol::still_writing(Decoder& decoder) {
  if (Status status = read_list(decoder, slots_); !status.ok()) return status;
  inquiry_.still_writing(slots_);
  return Reply{};
}

Result<Reply> SessionProtocol::act(Decoder& decoder) {
  protocol::Act act{};
  if (!decoder.read(act)) return malformed(decoder.type(), "shorter than its fixed part");
  const auto verb = static_cast<protocol::Verb>(act.verb);
  // A code of its own (kUnsupported): a newer engine learns that this larderd lacks the verb.
  if (protocol::verb_name(verb).empty())
    return Status(Code::kUnsupported, "ACT: verb " + std::to_string(act.verb) + " is unknown");
  if (!decoder.read_all(act.count, protocol::kMaxKeysPerAct, hashes_))
    return too_many(decoder.type(), act.count);
  const Result<bool> open = may_use("ACT", act.namespace_handle);
  if (!open.ok()) return open.status();
  // All chunks of a closed namespace count as absent.
  // kNoNamespace and not an error: another thread of the engine may have closed the namespace
  // meanwhile.
  ChunkVerb work(verb, *open ? act.namespace_handle : protocol::kNoNamespace, std::move(hashes_),
                 false, act.keep_s);
  return begin([this, act, verb, work = std::move(work),
                request = decoder.request()]() mutable -> std::optional<Result<Reply>> {
    if (!work.go_on(store_, stats_, promoter_)) return std::nullopt;
    const protocol::ActCounts& counts = work.counts();
    if (verb == protocol::Verb::kKeep && counts.refused != 0)
      base::log_from("keep", base::LogLevel::kWarning,
                     "kept chunks fill memory.keep_percent: further hints \"keep\" have no effect");
    Encoder encoder(MessageType::kActed, request);
    encoder.append(protocol::Acted{act.verb, static_cast<std::uint32_t>(counts.found),
                                   static_cast<std::uint32_t>(counts.absent),
                                   static_cast<std::uint32_t>(counts.refused)});
    return Reply{finish(encoder)};
  });
}

Result<Reply> SessionProtocol::fetch(Decoder& decoder) {
  protocol::Fetch fetch{};
  if (!decoder.read(fetch)) return malformed(decoder.type(), "shorter than its fixed part");
  if (promoter_ == nullptr)
    return Status(Code::kUnsupported, "FETCH: this larderd has no tier below memory");
  if (!decoder.read_all(fetch.count, protocol::kMaxKeysPerFetch, hashes_))
    return too_many(decoder.type(), fetch.count);
  const Result<bool> open = may_use("FETCH", fetch.namespace_handle);
  if (!open.ok()) return open.status();
  // Answered at once as absent, so the engine computes the prompt and waits for no tier.
  if (!*open) return Reply{fetched_packet(nothing_fetched(facts_.number, decoder.request()))};
  if (Status begun = promoter_->fetch(facts_.number, decoder.request(), fetch, hashes_);
      !begun.ok())
    return malformed(decoder.type(), begun.text());
  return Reply{};
}

// No reply: the engine has given up the request. The FETCHED of a finished fetch may cross this
// message.
Result<Reply> SessionProtocol::end_fetch(Decoder& decoder) {
  protocol::EndFetch end{};
  if (!decoder.read(end)) return malformed(decoder.type(), "shorter than its fixed part");
  if (promoter_ != nullptr) promoter_->end(facts_.number, end.request);
  return Reply{};
}

Result<Reply> SessionProtocol::probe(Decoder& decoder) {
  protocol::Probe probe{};
  if (!decoder.read(probe)) return malformed(decoder.type(), "shorter than its fixed part");
  if (tier_probes_ == nullptr)
    return Status(Code::kUnsupported, "PROBE: this larderd shares no backend");
  if (!decoder.read_all(probe.count, protocol::kMaxKeysPerProbe, hashes_))
    return too_many(decoder.type(), probe.count);
  const Result<bool> open = may_use("PROBE", probe.namespace_handle);
  if (!open.ok()) return open.status();
  if (!*open) {
    tiering::TierProbes::Answer nothing{facts_.number, decoder.request(), {}, std::nullopt};
    // The engine asked for one answer a hash, so the reply must have that form even without hits.
    if ((probe.flags & protocol::kProbeEach) != 0) nothing.each.emplace();
    return Reply{probed_packet(nothing)};
  }
  if (Status begun = tier_probes_->probe(facts_.number, decoder.request(), probe, hashes_);
      !begun.ok())
    return malformed(decoder.type(), begun.text());
  return Reply{};
}

std::vector<std::byte> probed_packet(const tiering::TierProbes::Answer& answer) {
  Encoder encoder(MessageType::kProbed, answer.request);
  encoder.append(answer.probed);
  if (answer.each) encoder.append(*answer.each);
  return finish(encoder);
}

std::vector<std::byte> fetched_packet(const tiering::Promoter::Answer& answer) {
  Encoder encoder(MessageType::kFetched, answer.request);
  encoder.append(answer.fetched);
  return finish(encoder);
}

}  // namespace larder::session
