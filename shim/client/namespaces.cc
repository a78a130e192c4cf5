#include "shim/client/namespaces.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "shim/base/test_point.h"

namespace larder::client {
namespace {

// Request numbers of this class: a bit for the kind, and the number of the namespace or drop. The
// numbers of Stores are lower.
constexpr std::uint32_t kFenceRequest = 1U << 31;
constexpr std::uint32_t kOpenRequest = 1U << 30;
constexpr std::uint32_t kLastNumber = kOpenRequest - 1;
constexpr std::uint32_t kCloseSince = 6;  // minor version of larderd
constexpr std::uint32_t kPartsSince = 8;

// The parts of a kind of chunks. `kept`: a byte for each shard and group of the client; empty: all.
ChunkParts chunk_parts(const NamespaceSpec& spec, GroupRange range,
                       std::span<const std::uint8_t> kept) {
  ChunkParts parts;
  parts.groups = range.count;
  parts.words.resize(protocol::part_words(spec.shard_count, range.count));
  for (std::uint16_t shard = 0; shard < spec.shard_count; ++shard) {
    for (std::uint16_t group = 0; group < range.count; ++group) {
      if (!kept.empty() &&
          kept[protocol::part_bit(shard, range.first + group, spec.groups.size())] == 0)
        continue;
      const std::size_t bit = protocol::part_bit(shard, group, range.count);
      parts.words[bit / 64] |= std::uint64_t{1} << bit % 64;
      parts.kept.push_back({shard, group});
    }
  }
  // Without words the message has the form of an older protocol.
  if (parts.kept.size() == std::size_t{spec.shard_count} * range.count) parts.words.clear();
  // All shards of an engine must agree on one part for the count of tokens, without talking to
  // each other.
  const auto before = [](Part a, Part b) {
    return std::pair(a.group, a.shard) < std::pair(b.group, b.shard);
  };
  if (!parts.kept.empty()) parts.first = *std::ranges::min_element(parts.kept, before);
  return parts;
}

}  // namespace

protocol::Encoder open_namespace_message(const NamespaceSpec& spec, NamespaceKind kind,
                                         const std::string& fingerprint, const std::string& model,
                                         std::uint32_t request,
                                         std::span<const std::uint64_t> part_words) {
  const GroupRange range = spec.range(kind);
  protocol::OpenNamespace open{};
  open.id = protocol::namespace_id(fingerprint);
  open.group_count = range.count;
  open.shard_count = spec.shard_count;
  open.chunk_tokens = spec.tokens(kind);
  open.text_bytes = static_cast<std::uint32_t>(fingerprint.size());
  open.model = protocol::make_short_text(model);
  protocol::Encoder message(protocol::MessageType::kOpenNamespace, request);
  message.append(open);
  for (const Group& group : std::span(spec.groups).subspan(range.first, range.count))
    message.append(
        protocol::GroupLayout{group.piece_bytes, static_cast<std::uint32_t>(group.pieces()), 0});
  message.append_text(fingerprint);
  message.append(
      protocol::NamespaceShards{spec.layout_shard, static_cast<std::uint32_t>(part_words.size())});
  return message.append_all(part_words);
}

Namespaces::Namespaces(const NamespaceSpec& spec, std::uint32_t first_generation, LogRing* log)
    : spec_(spec), log_(log) {
  for (std::uint32_t place = 1; place < places_.size(); ++place)
    // The generation makes each number unique, so a late answer for a closed namespace finds no
    // place.
    places_[place].number = first_generation << kNamespacePlaceBits | place;
  places_[0].taken = true;
  keep_all_parts();
}

void Namespaces::keep_all_parts() {
  for (const NamespaceKind kind : kNamespaceKinds)
    all_[static_cast<std::size_t>(kind)] = chunk_parts(spec_, spec_.range(kind), {});
}

Status Namespaces::set_parts(std::span<const std::uint8_t> kept) {
  const std::size_t groups = spec_.groups.size();
  if (kept.size() != spec_.shard_count * groups)
    return {Code::kInvalidArgument, "the client has " + std::to_string(spec_.shard_count * groups) +
                                        " shards and groups, got parts for " +
                                        std::to_string(kept.size())};
  for (std::size_t group = 0; spec_.layout_shard != 0 && group < groups; ++group)
    if ((kept[protocol::part_bit(spec_.layout_shard - 1, group, groups)] != 0) !=
        (spec_.groups[group].layers != 0))
      return {Code::kInvalidArgument,
              "group " + std::to_string(group) + " has " +
                  std::to_string(spec_.groups[group].layers) + " layers in shard " +
                  std::to_string(spec_.layout_shard - 1) + ", and set_parts() said the contrary"};
  const std::lock_guard lock(mutex_);
  const bool open =
      !spec_.fingerprint.empty() || std::ranges::count(places_, true, &Place::taken) > 1;
  // Look-ups read the parts without a lock. A second change would mix two sets.
  if (open || parts_.load() != &all_)
    return {Code::kFailedPrecondition, "the parts are set once, before any namespace"};
  for (const NamespaceKind kind : kNamespaceKinds)
    chosen_[static_cast<std::size_t>(kind)] = chunk_parts(spec_, spec_.range(kind), kept);
  if (chosen_.front().kept.empty()) return {Code::kInvalidArgument, "no part of a chunk is left"};
  parts_.store(&chosen_, std::memory_order_release);
  return {};
}

Status Namespaces::place(Transfer& transfer) const {
  if (spec_.layout_shard != 0 && transfer.shard != spec_.layout_shard - 1)
    return {Code::kInvalidArgument, "the layout of that shard is another engine's"};
  const GroupRange range = groups(transfer.ns);
  if (transfer.group < range.first || transfer.group >= range.first + range.count ||
      transfer.shard >= spec_.shard_count)
    return {Code::kInvalidArgument, "no such shard or group"};
  const ChunkParts& parts = this->parts(transfer.ns);
  transfer.key_group = static_cast<std::uint16_t>(transfer.group - range.first);
  if (!parts.has({transfer.shard, transfer.key_group}))
    return {Code::kInvalidArgument,
            "larderd keeps no chunks of that shard and group (larder_set_parts)"};
  const bool counts = !is_states(transfer.ns) && transfer.shard == parts.first.shard &&
                      transfer.key_group == parts.first.group;
  transfer.counted_tokens = counts ? spec_.tokens(kind(transfer.ns)) : 0;  // mutation: tail-tokens
  return {};
}

bool Namespaces::serves(const Attachment& attachment) const {
  if (attachment.welcome().version_minor >= kPartsSince) return true;
  return std::ranges::all_of(*parts_.load(std::memory_order_acquire),
                             &std::vector<std::uint64_t>::empty, &ChunkParts::words);
}

bool Namespaces::is_taken(std::uint32_t ns) const {
  const Place& place = places_[namespace_number_place(ns)];
  return place.taken && place.number == ns;
}

Result<std::uint32_t> Namespaces::add(const std::string& fingerprint, const std::string& model,
                                      NamespaceKind kind) {
  std::shared_ptr<Attachment> newest;  // released outside the lock
  const std::lock_guard lock(mutex_);
  if (parts_of(kind).kept.empty())
    return Status(Code::kInvalidArgument, "this larderd keeps no part of such chunks");
  if (parts_.load() == &all_ && std::ranges::count(spec_.groups, 0U, &Group::layers) != 0)
    return Status(Code::kFailedPrecondition,
                  "a group has no layers in this shard: tell the parts of the chunks first");
  const auto known = [&](std::uint32_t number) -> Result<std::uint32_t> {
    if (this->kind(number) == kind) return number;
    return Status(Code::kInvalidArgument, "the namespace is open with groups of another kind");
  };
  if (fingerprint == spec_.fingerprint) return known(0);
  Place* free = nullptr;
  for (Place& place : places_) {
    if (place.taken && place.fingerprint == fingerprint) return known(place.number);
    if (free == nullptr && !place.taken && !place.ended) free = &place;
  }
  if (free == nullptr)
    return Status(Code::kResourceExhausted, "all " +
                                                std::to_string(protocol::kMaxClientNamespaces) +
                                                " namespaces of this client are taken: close one");
  free->taken = true;
  free->fingerprint = fingerprint;
  free->model = model;
  free->id = protocol::namespace_id(fingerprint);
  free->fence = 0;
  kinds_[namespace_number_place(free->number)].store(kind, std::memory_order_release);
  // A drop covers this namespace too: an earlier process may have stored in it.
  drop_pending_[namespace_number_place(free->number)] = dropped_;
  newest = newest_.lock();
  if (newest) send_open(*newest, *free);
  // Until larderd answers the keys are misses, so add() need not wait.
  LARDER_POINT(open_sent);
  return free->number;
}

Status Namespaces::close(std::uint32_t ns, bool drop) {
  std::shared_ptr<Attachment> newest;  // released outside the lock
  const std::lock_guard lock(mutex_);
  if (ns == 0) return {Code::kInvalidArgument, "the engine's own namespace ends with its client"};
  if (!is_taken(ns))
    return {Code::kNotFound, "no such namespace, or the namespace is closed already"};
  newest = newest_.lock();
  if (newest) {
    // Look-ups miss from this store on, before larderd hears of the close.
    newest->set_namespace_handle(ns, Attachment::kNoHandle);
    // An older larderd keeps the namespace open until the session ends.
    if (newest->welcome().version_minor >= kCloseSince) {
      protocol::Encoder message(protocol::MessageType::kCloseNamespace, 0);
      message.append(protocol::CloseNamespace{kOpenRequest | ns, drop ? protocol::kCloseDrop : 0});
      newest->outbox().send(message.packet());
      LARDER_POINT(close_sent);
    }
  }
  Place& place = places_[namespace_number_place(ns)];
  // The place has used up all numbers, and stays empty: a repeated number could match an old
  // answer.
  place.ended = ns + protocol::kMaxClientNamespaces > kLastNumber;
  place = {false, place.ended, ns + (place.ended ? 0 : protocol::kMaxClientNamespaces), {}, {}, {},
           0};
  drop_pending_[namespace_number_place(ns)] = false;
  opened_.notify_all();
  return {};
}

std::optional<protocol::NamespaceId> Namespaces::id(std::uint32_t ns) const {
  const std::lock_guard lock(mutex_);
  if (ns == 0) return spec_.id;
  if (!is_taken(ns)) return std::nullopt;
  return places_[namespace_number_place(ns)].id;
}

Status Namespaces::wait_open(const Attachment& attachment, std::uint32_t ns,
                             std::uint32_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto open = [&] {
    return attachment.namespace_handle(ns) != Attachment::kNoHandle && !drop_pending(ns);
  };
  opened_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                   [&] { return open() || !is_taken(ns); });
  if (!is_taken(ns)) return {Code::kNotFound, "no such namespace, or the namespace is closed"};
  return open() ? Status()
                : Status(Code::kDeadlineExceeded, "larderd has not opened the namespace yet");
}

void Namespaces::drop_all() {
  std::shared_ptr<Attachment> newest;  // released outside the lock
  const std::lock_guard lock(mutex_);
  newest = newest_.lock();
  dropped_ = true;
  for (Place& place : places_) {
    if (!place.taken) continue;
    // Before the message: from here on look-ups miss, whatever larderd does.
    drop_pending_[namespace_number_place(place.number)] = true;
    if (newest) send_drop(*newest, place);
  }
}

void Namespaces::attached(const std::shared_ptr<Attachment>& attachment) {
  const std::lock_guard lock(mutex_);
  newest_ = attachment;
  if (drop_pending_[0]) send_drop(*attachment, places_[0]);
  for (const Place& place : places_)
    // Number 0 was opened by the handshake.
    if (place.taken && place.number != 0) send_open(*attachment, place);
}

// The answer for a closed number is ignored; larderd has its CLOSE_NAMESPACE.
void Namespaces::opened(Attachment& attachment, std::uint32_t request, std::uint32_t handle) {
  const std::uint32_t ns = request & ~kOpenRequest;
  const std::lock_guard lock(mutex_);
  if ((request & kOpenRequest) == 0 || ns == 0 || !is_taken(ns)) return;
  attachment.set_namespace_handle(ns, handle);
  if (drop_pending(ns)) send_drop(attachment, places_[namespace_number_place(ns)]);
  opened_.notify_all();
}

bool Namespaces::fence_passed(std::uint32_t request) {
  if ((request & kFenceRequest) == 0) return false;
  const std::lock_guard lock(mutex_);
  for (const Place& place : places_)
    // An answer to an older drop of the place does not count: a newer drop is under way.
    if (place.taken && place.fence == request)
      drop_pending_[namespace_number_place(place.number)] = false;
  opened_.notify_all();
  return true;
}

void Namespaces::send_open(Attachment& attachment, const Place& place) {
  if (!serves(attachment)) {
    if (log_ != nullptr)
      log_->add(
          "warning",
          "larderd speaks protocol 1." + std::to_string(attachment.welcome().version_minor) +
              ", and this engine needs 1." + std::to_string(kPartsSince) +
              ", for a pipeline stage without a layer of some KV group or for ranks "
              "on several nodes: upgrade larderd; until then the engine runs without the cache");
    return;
  }
  const std::uint32_t request = kOpenRequest | place.number;
  const NamespaceKind kind = this->kind(place.number);
  attachment.outbox().send(open_namespace_message(spec_, kind, place.fingerprint, place.model,
                                                  request, parts_of(kind).words)
                               .packet());
}

// larderd handles messages in order, so the answer to an empty RESERVE tells that the drop is done.
void Namespaces::send_drop(Attachment& attachment, Place& place) {
  last_fence_ = (last_fence_ + 1) % kFenceRequest;
  // A new number for each drop, also for a repeated one: the older answer must not end the newer
  // drop.
  place.fence = kFenceRequest | last_fence_;
  const std::uint32_t handle = attachment.namespace_handle(place.number);
  if (handle == Attachment::kNoHandle) return;  // opened() sends it
  protocol::Encoder drop(protocol::MessageType::kDropNamespace, 0);
  drop.append(protocol::DropNamespace{handle, 0});
  protocol::Encoder fence(protocol::MessageType::kReserve, place.fence);
  fence.append(protocol::Reserve{handle, 0, 0, 0, 0});
  if (attachment.outbox().send(drop.packet())) attachment.outbox().send(fence.packet());
  LARDER_POINT(drop_sent);
}

}  // namespace larder::client
