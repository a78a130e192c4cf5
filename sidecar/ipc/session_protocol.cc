#include "sidecar/ipc/session_protocol.h"

#include <algorithm>

#include "shim/protocol/version.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/ipc/chunk_verbs.h"
#include "sidecar/ipc/namespace_journal.h"

namespace larder::ipc {

using protocol::Decoder;
using protocol::Encoder;
using protocol::MessageType;

namespace {

std::vector<std::byte> finish(Encoder& encoder) {
  const auto packet = encoder.packet();
  return {packet.begin(), packet.end()};
}

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
    case MessageType::kLook: return "LOOK";
    case MessageType::kLooked: return "LOOKED";
    case MessageType::kExport: return "EXPORT";
    case MessageType::kExported: return "EXPORTED";
    case MessageType::kWithdraw: return "WITHDRAW";
    case MessageType::kWithdrawn: return "WITHDRAWN";
    case MessageType::kCopy: return "COPY";
  }
  return "";
}

Status malformed(MessageType type, const std::string& why) {
  return {Code::kInvalidArgument, std::string(type_name(type)) + ": " + why};
}

// The records behind a list's head.
template <typename Record>
Status read_list(Decoder& decoder, std::vector<Record>& records) {
  protocol::SlotList list{};
  if (!decoder.read(list)) return malformed(decoder.type(), "shorter than its fixed part");
  if (!decoder.read_all(list.count, protocol::kMaxGrantsPerMessage, records))
    return malformed(decoder.type(), "count " + std::to_string(list.count) + " is over the limit or the packet");
  return {};
}

}  // namespace

std::vector<std::byte> error_packet(const Status& status) {
  const std::string text = status.text().substr(0, 4096);
  Encoder encoder(MessageType::kError, 0);
  encoder.append(protocol::Error{static_cast<std::uint32_t>(status.code()), static_cast<std::uint32_t>(text.size())})
      .append_text(text);
  return finish(encoder);
}

SessionProtocol::SessionProtocol(const SessionFacts& facts, const protocol::SessionRegion& region, store::Store& store,
                                 stats::Stats& stats, const base::Clock& clock, std::function<bool()> lock_held,
                                 Promotions* promotions, Looks* looks, Demand* demand, transfer::Transfers* transfers)
    : facts_(facts),
      region_(region),
      store_(store),
      stats_(stats),
      clock_(clock),
      lock_held_(std::move(lock_held)),
      promotions_(promotions),
      looks_(looks),
      demand_(demand),
      transfers_(transfers) {}

Result<Reply> SessionProtocol::handle(std::span<const std::byte> packet, std::vector<Fd> fds) {
  Result<Decoder> decoder = Decoder::open(packet);
  if (!decoder.ok()) return decoder.status();
  const MessageType type = decoder->type();
  if (!fds.empty() && type != MessageType::kExport)
    return Status(Code::kInvalidArgument, "engines send no descriptors but those of EXPORT");
  if (type_name(type).empty())
    return Status(Code::kInvalidArgument, "message type " + std::to_string(static_cast<unsigned>(type)) + " is unknown");
  if (state_ == State::kNew && type == MessageType::kHello) return hello(*decoder);
  if (state_ == State::kWelcomed && type == MessageType::kAttached) return attached(*decoder);
  if (state_ == State::kAttached) {
    switch (type) {
      case MessageType::kOpenNamespace: return open_namespace(*decoder);
      case MessageType::kReserve: return reserve(*decoder);
      case MessageType::kCommit: return commit(*decoder);
      case MessageType::kDisown: return disown(*decoder);
      case MessageType::kBad: return bad(*decoder);
      case MessageType::kStillWriting: return still_writing(*decoder);
      case MessageType::kDropNamespace: return drop_namespace(*decoder);
      case MessageType::kAct: return act(*decoder);
      case MessageType::kFetch: return fetch(*decoder);
      case MessageType::kFetchEnd: return end_fetch(*decoder);
      case MessageType::kLook: return look(*decoder);
      case MessageType::kExport: return export_memory(*decoder, std::move(fds));
      case MessageType::kWithdraw: return withdraw(*decoder);
      case MessageType::kCopy: return copy(*decoder);
      default: break;
    }
  }
  static constexpr std::string_view kExpected[] = {"HELLO", "ATTACHED", "a request"};
  return Status(Code::kFailedPrecondition,
                std::string(type_name(type)) + " where " + std::string(kExpected[static_cast<int>(state_)]) + " was expected");
}

Reply SessionProtocol::begin(Work work) {
  work_ = std::move(work);
  return go_on();
}

Reply SessionProtocol::go_on() {
  std::optional<Reply> reply = work_();
  if (!reply) return {};
  work_ = nullptr;
  return *std::move(reply);
}

Result<Reply> SessionProtocol::hello(Decoder& decoder) {
  Decoder version_reader = decoder;
  std::uint32_t major = 0;
  if (!version_reader.read(major)) return malformed(decoder.type(), "shorter than its version");
  if (major != protocol::kVersionMajor)
    return Status(Code::kUnsupported, "protocol version " + std::to_string(major) + " is not served: this larderd speaks " +
                                          std::to_string(protocol::kVersionMajor) + "." +
                                          std::to_string(protocol::kVersionMinor));
  protocol::Hello hello{};
  if (!decoder.read(hello)) return malformed(decoder.type(), "shorter than its fixed part");
  engine_ = protocol::short_text(hello.engine);
  previous_session_ = hello.previous_session;
  previous_epoch_ = hello.previous_epoch;
  state_ = State::kWelcomed;

  protocol::Welcome welcome{};
  welcome.version_major = protocol::kVersionMajor;
  welcome.version_minor = protocol::kVersionMinor;
  welcome.capabilities = protocol::kCapabilityAct | (promotions_ != nullptr ? protocol::kCapabilityBelow : 0) |
                         (looks_ != nullptr ? protocol::kCapabilityShared : 0) |
                         (transfers_ != nullptr ? protocol::kCapabilityTransfer : 0);
  welcome.epoch = facts_.epoch;
  welcome.session_token = facts_.token;
  welcome.session_number = facts_.number;
  welcome.heartbeat_interval_ms = protocol::kHeartbeatIntervalMs;
  welcome.heartbeat_timeout_ms = protocol::kHeartbeatTimeoutMs;
  welcome.max_grants = protocol::kMaxGrants;
  welcome.arena_bytes = facts_.arena_bytes;
  welcome.index_bytes = facts_.index_bytes;
  welcome.session_bytes = sizeof(protocol::SessionRegion);
  welcome.arena_page_bytes = facts_.arena_page_bytes;
  const bool below = promotions_ != nullptr && (hello.capabilities & protocol::kCapabilityBelow) != 0;
  if (below) welcome.below_bytes = facts_.below_bytes;
  Encoder encoder(MessageType::kWelcome, decoder.request());
  encoder.append(welcome);
  return Reply{finish(encoder), true, below};
}

Result<Reply> SessionProtocol::attached(Decoder& decoder) {
  if (Status status = read_list(decoder, still_written_); !status.ok()) return status;
  if (!lock_held_())
    return Status(Code::kFailedPrecondition, "ATTACHED: the lock file is not locked (F_SETLK on the descriptor of WELCOME)");
  store_.add_session(facts_.number, region_,
                     {facts_.arena_bytes / protocol::kSessionGrantedShare, facts_.arena_bytes / protocol::kSessionHeldShare});
  state_ = State::kAttached;
  return Reply{};
}

bool SessionProtocol::has_open(std::uint32_t handle) const {
  return std::find(namespaces_.begin(), namespaces_.end(), handle) != namespaces_.end();
}

Result<Reply> SessionProtocol::open_namespace(Decoder& decoder) {
  Result<store::NamespaceSpec> read = read_open_namespace(decoder);
  if (!read.ok()) return read.status();
  const store::NamespaceSpec& spec = *read;
  std::string difference;
  Result<std::uint32_t> handle = store_.open_namespace(spec, &difference);
  if (handle.status().code() == Code::kResourceExhausted &&
      !namespaces_.empty()) {  // an adapter must not cost the engine its own
    const std::string why = handle.status().text();
    Encoder refusal(MessageType::kNamespace, decoder.request());
    refusal.append(protocol::Namespace{protocol::kNoNamespace, static_cast<std::uint32_t>(why.size())}).append_text(why);
    return Reply{finish(refusal)};
  }
  if (!handle.ok()) return Status(handle.status().code(), "OPEN_NAMESPACE: " + handle.status().text());
  if (!has_open(*handle)) {
    namespaces_.push_back(*handle);
    ++store_.namespaces().at(*handle).sessions;
  }
  base::log_from(log_source(facts_.peer, "OPEN_NAMESPACE"), base::LogLevel::kInfo,
                 "session " + std::to_string(facts_.number) + ": namespace " + spec.id.to_hex() + " model '" + spec.model + "'" +
                     (difference.empty() ? "" : ", " + difference));
  Encoder encoder(MessageType::kNamespace, decoder.request());
  encoder.append(protocol::Namespace{*handle, static_cast<std::uint32_t>(difference.size())}).append_text(difference);
  Reply reply{finish(encoder)};
  reply.opened = *std::move(read);
  return reply;
}

Result<Reply> SessionProtocol::reserve(Decoder& decoder) {
  const std::uint64_t start_ns = clock_.now_ns();
  protocol::Reserve reserve{};
  if (!decoder.read(reserve)) return malformed(decoder.type(), "shorter than its fixed part");
  if (!decoder.read_all(reserve.count, protocol::kMaxKeysPerReserve, hashes_))
    return malformed(decoder.type(), "count " + std::to_string(reserve.count) + " is over the limit or the packet");
  if (!has_open(reserve.namespace_handle))
    return malformed(decoder.type(), "this session has not opened namespace " + std::to_string(reserve.namespace_handle));
  if (store_.namespaces().at(reserve.namespace_handle).layout(reserve.shard, reserve.group) == nullptr)
    return malformed(decoder.type(), "the namespace has no shard " + std::to_string(reserve.shard) + " of group " +
                                         std::to_string(reserve.group) + ", or nobody told its layout");
  grants_.resize(hashes_.size());
  store_.reserve(facts_.number, {{}, reserve.namespace_handle, reserve.shard, reserve.group}, hashes_, grants_);
  if (demand_ != nullptr) demand_->stored(reserve.namespace_handle, hashes_);
  Encoder encoder(MessageType::kGranted, decoder.request());
  encoder.append(protocol::Granted{reserve.count, 0}).append_all(std::span<const protocol::Grant>(grants_));
  stats_.reserve.record(clock_.now_ns() - start_ns);
  Reply reply{finish(encoder)};
  if (reserve.count == 0) reply.fence = reserve.namespace_handle;
  return reply;
}

Result<Reply> SessionProtocol::commit(Decoder& decoder) {
  if (Status status = read_list(decoder, commits_); !status.ok()) return status;
  for (const protocol::CommitRecord& record : commits_) {
    if (Status status = release_copies(decoder.type(), record.slot, record.generation); !status.ok()) return status;
    store_.commit(facts_.number, record);
  }
  return Reply{};
}

Result<Reply> SessionProtocol::disown(Decoder& decoder) {
  if (Status status = read_list(decoder, slots_); !status.ok()) return status;
  for (const protocol::SlotRef& slot : slots_) {
    if (Status status = release_copies(decoder.type(), slot.slot, slot.generation); !status.ok()) return status;
    store_.disown(facts_.number, slot);
  }
  return Reply{};
}

Result<Reply> SessionProtocol::bad(Decoder& decoder) {
  if (Status status = read_list(decoder, slots_); !status.ok()) return status;
  // An engine with a broken copy path reports every chunk that it loads.
  base::log_from(log_source(facts_.peer, "BAD"), base::LogLevel::kWarning,
                 "session " + std::to_string(facts_.number) + ": " + std::to_string(slots_.size()) +
                     " chunks did not match their checksum and are dropped");
  return begin([this, slots = slots_, next = std::size_t{0}]() mutable -> std::optional<Reply> {
    const std::uint64_t end = store_.effort() + store::Store::kSliceEffort;
    while (next < slots.size() && store_.effort() < end) store_.report_bad(slots[next++]);
    if (next < slots.size()) return std::nullopt;
    return Reply{};
  });
}

Result<Reply> SessionProtocol::still_writing(Decoder& decoder) {
  if (Status status = read_list(decoder, slots_); !status.ok()) return status;
  inquiry_.still_writing(slots_);
  return Reply{};
}

Result<Reply> SessionProtocol::drop_namespace(Decoder& decoder) {
  protocol::DropNamespace drop{};
  if (!decoder.read(drop)) return malformed(decoder.type(), "shorter than its fixed part");
  if (!has_open(drop.namespace_handle))
    return malformed(decoder.type(), "this session has not opened namespace " + std::to_string(drop.namespace_handle));
  if (demand_ != nullptr) demand_->dropped(drop.namespace_handle);
  return begin([this, work = store::Drop{drop.namespace_handle}]() mutable -> std::optional<Reply> {
    store_.drop(work);
    if (!work.done) return std::nullopt;
    base::log_from(log_source(facts_.peer, "DROP_NAMESPACE"), base::LogLevel::kInfo,
                   "session " + std::to_string(facts_.number) + ": dropped " + std::to_string(work.dropped) +
                       " chunks of namespace " + store_.namespaces().at(*work.handle).spec.id.to_hex());
    return Reply{};
  });
}

Result<Reply> SessionProtocol::act(Decoder& decoder) {
  protocol::Act act{};
  if (!decoder.read(act)) return malformed(decoder.type(), "shorter than its fixed part");
  const auto verb = static_cast<protocol::Verb>(act.verb);
  if (protocol::verb_name(verb).empty())
    return Status(Code::kUnsupported, "ACT: verb " + std::to_string(act.verb) + " is unknown");
  if (!decoder.read_all(act.count, protocol::kMaxKeysPerAct, hashes_))
    return malformed(decoder.type(), "count " + std::to_string(act.count) + " is over the limit or the packet");
  if (!has_open(act.namespace_handle))
    return malformed(decoder.type(), "this session has not opened namespace " + std::to_string(act.namespace_handle));
  ChunkVerb work(verb, act.namespace_handle, std::move(hashes_));
  return begin([this, act, work = std::move(work), request = decoder.request()]() mutable -> std::optional<Reply> {
    if (!work.go_on(store_, stats_, promotions_)) return std::nullopt;
    const protocol::ActCounts& counts = work.counts();
    Encoder encoder(MessageType::kActed, request);
    encoder.append(protocol::Acted{act.verb, static_cast<std::uint32_t>(counts.found), static_cast<std::uint32_t>(counts.absent),
                                   static_cast<std::uint32_t>(counts.refused)});
    return Reply{finish(encoder)};
  });
}

Result<Reply> SessionProtocol::fetch(Decoder& decoder) {
  protocol::Fetch fetch{};
  if (!decoder.read(fetch)) return malformed(decoder.type(), "shorter than its fixed part");
  if (promotions_ == nullptr) return Status(Code::kUnsupported, "FETCH: this larderd has no tier below memory");
  if (!decoder.read_all(fetch.count, protocol::kMaxKeysPerFetch, hashes_))
    return malformed(decoder.type(), "count " + std::to_string(fetch.count) + " is over the limit or the packet");
  if (!has_open(fetch.namespace_handle))
    return malformed(decoder.type(), "this session has not opened namespace " + std::to_string(fetch.namespace_handle));
  if (Status begun = promotions_->fetch(facts_.number, decoder.request(), fetch, hashes_); !begun.ok())
    return malformed(decoder.type(), begun.text());
  return Reply{};
}

Result<Reply> SessionProtocol::end_fetch(Decoder& decoder) {
  protocol::EndFetch end{};
  if (!decoder.read(end)) return malformed(decoder.type(), "shorter than its fixed part");
  if (promotions_ != nullptr) promotions_->end(facts_.number, end.request);
  return Reply{};
}

Result<Reply> SessionProtocol::look(Decoder& decoder) {
  protocol::Look look{};
  if (!decoder.read(look)) return malformed(decoder.type(), "shorter than its fixed part");
  if (looks_ == nullptr) return Status(Code::kUnsupported, "LOOK: this larderd shares no backend");
  if (!decoder.read_all(look.count, protocol::kMaxKeysPerLook, hashes_))
    return malformed(decoder.type(), "count " + std::to_string(look.count) + " is over the limit or the packet");
  if (!has_open(look.namespace_handle))
    return malformed(decoder.type(), "this session has not opened namespace " + std::to_string(look.namespace_handle));
  if (Status begun = looks_->look(facts_.number, decoder.request(), look, hashes_); !begun.ok())
    return malformed(decoder.type(), begun.text());
  return Reply{};
}

std::vector<std::byte> looked_packet(const Looks::Answer& answer) {
  Encoder encoder(MessageType::kLooked, answer.request);
  encoder.append(answer.looked);
  return finish(encoder);
}

std::vector<std::byte> fetched_packet(const Promotions::Answer& answer) {
  Encoder encoder(MessageType::kFetched, answer.request);
  encoder.append(answer.fetched);
  return finish(encoder);
}

}  // namespace larder::ipc
