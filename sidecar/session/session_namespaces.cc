// The namespaces of a session: OPEN_NAMESPACE, CLOSE_NAMESPACE, DROP_NAMESPACE.
#include <algorithm>

#include "shim/base/test_point.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/memory/namespace_journal.h"
#include "sidecar/session/listener.h"
#include "sidecar/session/session_name.h"

namespace larder::session {

using protocol::Decoder;
using protocol::Encoder;
using protocol::MessageType;

namespace {

// `text`: the difference to the fingerprint of an earlier engine, or the reason of a refusal.
std::vector<std::byte> namespace_packet(std::uint32_t request, std::uint32_t handle,
                                        const std::string& text) {
  Encoder encoder(MessageType::kNamespace, request);
  encoder.append(protocol::Namespace{handle, static_cast<std::uint32_t>(text.size())})
      .append_text(text);
  return {encoder.packet().begin(), encoder.packet().end()};
}

}  // namespace

bool SessionProtocol::has_open(std::uint32_t handle) const {
  return std::ranges::find(namespaces_, handle) != namespaces_.end();
}

// False: the session has closed a namespace, and another thread of the engine may not know yet.
Result<bool> SessionProtocol::may_use(const char* message, std::uint32_t handle) const {
  if (has_open(handle)) return true;
  if (has_closed_) return false;
  return Status(
      Code::kInvalidArgument,
      std::string(message) + ": this session has not opened namespace " + std::to_string(handle));
}

Result<Reply> SessionProtocol::open_namespace(Decoder& decoder, std::span<const std::byte> packet) {
  // The decoder is shared with the journal: a packet that larderd accepted can be read again after
  // a warm restart.
  Result<store::NamespaceSpec> read = memory::read_open_namespace(decoder);
  if (!read.ok()) return read.status();
  if (namespaces_.size() >= protocol::kMaxClientNamespaces)
    return refuse_namespace(
        decoder.request(),
        {Code::kResourceExhausted, "this session has " + std::to_string(namespaces_.size()) +
                                       " namespaces open, as many as one may: close one"});
  // The packet is kept as received. The loop writes the bytes into the journal for the next
  // larderd.
  Reply::Opened opened{*std::move(read), protocol::kNoNamespace, {packet.begin(), packet.end()}};
  // In slices: with a full table, the eviction of an old namespace may drop many thousand chunks.
  return begin([this, opened = std::move(opened), request = decoder.request(),
                room = std::optional<store::Drop>()]() mutable -> std::optional<Result<Reply>> {
    if (room && !make_room_on(*room)) return std::nullopt;
    room.reset();
    std::string difference;
    const Result<std::uint32_t> handle = store_.open_namespace(opened.spec, &difference);
    if (handle.ok()) return enter_namespace(request, *handle, difference, std::move(opened));
    if (handle.status().code() != Code::kResourceExhausted)
      return Status(handle.status().code(), "OPEN_NAMESPACE: " + handle.status().text());
    // Adapters come and go, so a full table evicts the least recently used namespace that no
    // session has open.
    const std::optional<std::uint32_t> least = store_.namespaces().least_used();
    if (!least) return refuse_namespace(request, handle.status());
    room = store::Drop{least, true};
    return std::nullopt;
  });
}

// Evicts one slice of the least recently used namespace that no session has open, to free its
// place. False: more slices follow.
bool SessionProtocol::make_room_on(store::Drop& room) {
  store_.drop(room);
  if (!room.done) return false;
  ++stats_.namespaces_evicted;
  base::log_from(log_source(facts_.peer, "namespace evicted"), base::LogLevel::kInfo,
                 "a namespace that no session has open was evicted for its place, " +
                     std::to_string(room.dropped) + " chunks");
  return true;
}

// Refuses a further namespace (an adapter) without ending the session: the engine keeps the
// namespaces that it has open.
Result<Reply> SessionProtocol::refuse_namespace(std::uint32_t request, const Status& why) {
  ++stats_.namespaces_refused;
  // An engine without any namespace cannot use the cache. The fault ends its session and the engine
  // retries later.
  if (namespaces_.empty()) return Status(why.code(), "OPEN_NAMESPACE: " + why.text());
  return Reply{namespace_packet(request, protocol::kNoNamespace, why.text())};
}

// Called only once a namespace is open: an engine without a namespace keeps reconnecting, and the
// log should show the refusal alone.
void SessionProtocol::tell_attached() {
  if (std::exchange(attach_logged_, true)) return;
  base::log_from(log_source(facts_.peer, "attached"), base::LogLevel::kInfo,
                 session_name(*this) + " attached");
}

Reply SessionProtocol::enter_namespace(std::uint32_t request, std::uint32_t handle,
                                       const std::string& difference, Reply::Opened opened) {
  // The store counts sessions and not requests: a namespace that two requests opened is joined
  // once.
  if (!has_open(handle)) store_.join_namespace(handle);
  // Both lists grow together: opened_by_[i] is the request of namespaces_[i].
  namespaces_.push_back(handle);
  opened_by_.push_back(request);
  tell_attached();
  base::log_from(log_source(facts_.peer, "OPEN_NAMESPACE"), base::LogLevel::kInfo,
                 "session " + std::to_string(facts_.number) + ": namespace " +
                     opened.spec.id.to_hex() + " model '" + opened.spec.model + "'" +
                     (difference.empty() ? "" : ", " + difference));
  Reply reply{namespace_packet(request, handle, difference)};
  opened.handle = handle;
  reply.opened = std::move(opened);
  return reply;
}

Result<Reply> SessionProtocol::close_namespace(Decoder& decoder) {
  protocol::CloseNamespace close{};
  if (!decoder.read(close))
    return Status(Code::kInvalidArgument, "CLOSE_NAMESPACE: shorter than its fixed part");
  // Set before the search: from here on a message about an unknown handle may simply be late
  // (may_use()).
  has_closed_ = true;
  std::vector<store::Drop> drops;
  for (auto at = std::ranges::find(opened_by_, close.opened_by); at != opened_by_.end();
       at = std::ranges::find(opened_by_, close.opened_by)) {
    const auto entry = namespaces_.begin() + (at - opened_by_.begin());
    const std::uint32_t handle = *entry;
    namespaces_.erase(entry);
    opened_by_.erase(at);
    if (has_open(handle)) continue;  // another request opened it too
    // Dropped only by the last session: other engines still load chunks of the namespace.
    const bool drop =
        (close.flags & protocol::kCloseDrop) != 0 && store_.namespaces().at(handle).sessions == 1;
    if (drop && reuse_tracker_ != nullptr) reuse_tracker_->dropped(handle);
    store_.leave_namespace(handle);
    // `true`: lower tiers keep their chunks. The drop ends early if a session opens the namespace
    // between two slices.
    if (drop) drops.push_back({handle, true});
  }
  LARDER_POINT(namespace_left);
  return begin([this, drops = std::move(drops)]() mutable -> std::optional<Result<Reply>> {
    if (drops.empty()) return Reply{};
    store_.drop(drops.back());
    if (drops.back().done) drops.pop_back();
    return drops.empty() ? std::optional<Result<Reply>>(Reply{}) : std::nullopt;
  });
}

// A handle may appear twice, but the store counted the session once.
void SessionProtocol::leave_namespaces() {
  std::ranges::sort(namespaces_);
  const auto [first, last] = std::ranges::unique(namespaces_);
  namespaces_.erase(first, last);
  opened_by_.clear();
  for (const std::uint32_t handle : std::exchange(namespaces_, {})) store_.leave_namespace(handle);
}

Result<Reply> SessionProtocol::drop_namespace(Decoder& decoder) {
  protocol::DropNamespace drop{};
  if (!decoder.read(drop))
    return Status(Code::kInvalidArgument, "DROP_NAMESPACE: shorter than its fixed part");
  const Result<bool> open = may_use("DROP_NAMESPACE", drop.namespace_handle);
  if (!open.ok()) return open.status();
  // The namespace is closed, so its chunks may belong to other engines by now.
  if (!*open) return Reply{};
  // Each pending drop takes a place in a bounded list of the tier. Refused before any chunk is
  // dropped, so memory and tiers never differ.
  if (!store_.tiers().takes_drops())
    return Status(Code::kResourceExhausted,
                  "DROP_NAMESPACE: too many drops wait for a tier below memory: again in a while");
  // The estimate forgets at the start of the drop: later requests find no chunk, at any memory
  // size.
  if (reuse_tracker_ != nullptr) reuse_tracker_->dropped(drop.namespace_handle);
  return begin(
      [this, work = store::Drop{drop.namespace_handle}]() mutable -> std::optional<Result<Reply>> {
        store_.drop(work);
        if (!work.done) return std::nullopt;
        base::log_from(log_source(facts_.peer, "DROP_NAMESPACE"), base::LogLevel::kInfo,
                       "session " + std::to_string(facts_.number) + ": dropped " +
                           std::to_string(work.dropped) + " chunks of namespace " +
                           store_.namespaces().at(*work.handle).spec.id.to_hex());
        return Reply{};
      });
}

}  // namespace larder::session
