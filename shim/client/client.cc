#include "shim/client/client.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "shim/base/test_point.h"
#include "shim/protocol/codec.h"

namespace larder::client {
namespace {

// A shard of a pipeline may have no layer of a group.
Status check_group(const Group& group, std::size_t number, bool may_be_empty) {
  const std::string name = "group " + std::to_string(number) + ": ";
  if (group.piece_bytes == 0 || group.piece_bytes > protocol::kMaxPieceBytes)
    return {Code::kOutOfRange,
            name + "piece_bytes must be 1 to " + std::to_string(protocol::kMaxPieceBytes)};
  // Divided and not multiplied: the product of an engine's wrong figures could overflow.
  if ((group.layers == 0 && !may_be_empty) || group.blocks_per_chunk == 0 ||
      group.pieces() > UINT32_MAX ||
      group.pieces() > protocol::kMaxPayloadBytes / group.piece_bytes)
    return {Code::kOutOfRange, name + "a chunk must have 1 to " +
                                   std::to_string(protocol::kMaxPayloadBytes) + " bytes"};
  return {};
}

Status check_spec(const NamespaceSpec& spec) {
  if (spec.fingerprint.size() > protocol::kMaxFingerprintBytes)
    return {Code::kOutOfRange, "fingerprint must have at most " +
                                   std::to_string(protocol::kMaxFingerprintBytes) + " bytes"};
  if (spec.shard_count == 0 || spec.shard_count > protocol::kMaxShards)
    return {Code::kOutOfRange, "shard_count must be 1 to " + std::to_string(protocol::kMaxShards)};
  if (spec.groups.empty() || spec.groups.size() > protocol::kMaxGroups)
    return {Code::kOutOfRange, "group_count must be 1 to " + std::to_string(protocol::kMaxGroups)};
  // A model with states alone is no case: the engine's own namespace is one of tokens.
  if (std::uint64_t{spec.state_groups} + spec.tail_groups >= spec.groups.size())
    return {Code::kOutOfRange,
            "state_group_count and tail_group_count must be less than group_count together"};
  if (spec.layout_shard > spec.shard_count)
    return {Code::kOutOfRange, "layout_of_shard names a shard that there is not"};
  if (spec.chunk_tokens == 0) return {Code::kInvalidArgument, "chunk_tokens must not be 0"};
  if ((spec.tail_groups == 0) != (spec.tail_tokens == 0) || spec.tail_tokens >= spec.chunk_tokens)
    return {Code::kOutOfRange,
            "tail_tokens must be less than chunk_tokens, and 0 without groups of tails"};
  for (std::size_t i = 0; i < spec.groups.size(); ++i)
    if (Status status = check_group(spec.groups[i], i, spec.layout_shard != 0); !status.ok())
      return status;
  if (std::ranges::all_of(spec.groups, [](const Group& group) { return group.layers == 0; }))
    return {Code::kOutOfRange, "a shard must have layers in some group"};
  return {};
}

}  // namespace

Client::Client(Options options, const copy::CopyEngines& engines)
    : options_(std::move(options)),
      copies_(engines, log_),
      pool_(options_.copy_threads),
      loads_(pool_, copies_, spec_, pages_.by_group(), &sidecar_),
      stores_(pool_, copies_, spec_, pages_.by_group(),
              std::chrono::milliseconds(protocol::kMaxStoreAgeMs), &sidecar_) {
  if (const Status armed = fork_guard_.arm(); !armed.ok()) throw std::runtime_error(armed.text());
}

Client::~Client() {
  LARDER_POINT(closing);
  // The order of the next lines keeps every thread out of the pages: first no new work, then no
  // running work.
  control_.reset();  // no grant arrives from here on
  LARDER_POINT(session_closed);
  pool_.close();  // the last writer has stopped
  events_.close();
}

Status Client::set_namespace(NamespaceSpec spec) {
  if (Status status = check_spec(spec); !status.ok()) return status;
  const std::lock_guard lock(setup_mutex_);
  if (control_) return {Code::kFailedPrecondition, "the namespace is already set"};
  spec_ = std::move(spec);
  spec_.id = protocol::namespace_id(spec_.fingerprint);
  namespaces_.keep_all_parts();
  pages_.begin();
  control_ = std::make_unique<Control>(options_.socket, options_.engine, spec_, log_, events_);
  // Last: other threads see the control thread only together with a complete namespace.
  control_ready_.store(control_.get(), std::memory_order_release);
  return {};
}

Status Client::set_parts(std::span<const std::uint8_t> kept) {
  if (control() == nullptr) return {Code::kFailedPrecondition, "set the namespace first"};
  return namespaces_.set_parts(kept);
}

Result<std::uint32_t> Client::add_namespace(const std::string& fingerprint,
                                            const std::string& model, NamespaceKind kind) {
  if (control() == nullptr) return Status(Code::kFailedPrecondition, "set the namespace first");
  if (fingerprint.empty() || fingerprint.size() > protocol::kMaxFingerprintBytes)
    return Status(Code::kOutOfRange, "fingerprint must have 1 to " +
                                         std::to_string(protocol::kMaxFingerprintBytes) + " bytes");
  // A namespace without groups would have chunks without parts.
  if (spec_.range(kind).count == 0)
    return Status(Code::kInvalidArgument, "the client has no groups of that kind");
  return namespaces_.add(fingerprint, model.empty() ? spec_.model : model, kind);
}

Status Client::close_namespace(std::uint32_t ns, bool drop) {
  if (control() == nullptr) return {Code::kFailedPrecondition, "set the namespace first"};
  return namespaces_.close(ns, drop);
}

Status Client::wait_namespace(std::uint32_t ns, std::uint32_t timeout_ms) {
  if (control() == nullptr) return {Code::kFailedPrecondition, "set the namespace first"};
  const std::shared_ptr<Attachment> attachment = control()->attached();
  if (!attachment) return {Code::kUnavailable, "not attached to larderd"};
  return namespaces_.wait_open(*attachment, ns, timeout_ms);
}

Status Client::register_pages(std::uint32_t group, GroupPages layers) {
  const std::lock_guard lock(setup_mutex_);
  if (!control_) return {Code::kFailedPrecondition, "set the namespace first"};
  if (Status status = pages_.fits(group, layers); !status.ok()) return status;
  // Chooses the copy engine by the place of the pages: the host's, or that of their GPU.
  if (Status status = copies_.serve(layers); !status.ok()) return status;
  // One more than the pool's threads: in store_finish() the engine's thread copies too.
  copies_.prepare(spec_.groups[group].piece_bytes, spec_.groups[group].pieces(),
                  options_.copy_threads + 1);
  pages_.add(group, std::move(layers));
  control_->hurry();  // the pages are exported now, not at the next beat
  return {};
}

State Client::state() const {
  State state;
  state.loads_running = loads_.running();
  state.stores_running = stores_.running();
  if (control() != nullptr) state.attachments = control()->attachments();
  const std::shared_ptr<Attachment> attachment = current();
  if (!attachment) return state;
  // A lost session serves look-ups from the mapping, but takes no stores.
  state.attached = !attachment->outbox().closed();
  state.usable = !attachment->index().dead();
  state.epoch = attachment->epoch();
  return state;
}

Status Client::wait_attached(std::uint32_t timeout_ms) {
  if (control() == nullptr) return {Code::kFailedPrecondition, "set the namespace first"};
  if (control()->wait_attached(timeout_ms)) return {};
  return {Code::kDeadlineExceeded, "larderd at " + options_.socket + " did not answer"};
}

std::pair<std::uint64_t, std::size_t> Client::hold(const Hashes& hashes) {
  std::shared_ptr<Attachment> attachment = readable(hashes.ns);
  if (!attachment) return {0, 0};
  // Outside of the lock: holding thousands of chunks takes longer than other threads should wait.
  HoldSet holds(std::move(attachment), namespaces_.parts(hashes.ns).kept, hashes);
  // A hold of no chunk needs no handle, and no release.
  const std::size_t chunks = holds.chunks();
  if (chunks == 0) return {0, 0};
  const std::lock_guard lock(holds_mutex_);
  holds_.emplace(++last_hold_, std::move(holds));
  return {last_hold_, chunks};
}

void Client::release(std::uint64_t hold) {
  std::unordered_map<std::uint64_t, HoldSet>::node_type released;  // given up outside the lock
  const std::lock_guard lock(holds_mutex_);
  released = holds_.extract(hold);
}

void Client::report_request(const Hashes& hashes, const RequestReport& request) {
  const std::shared_ptr<Attachment> attachment = current();
  if (!attachment) return;
  const std::uint32_t handle = attachment->namespace_handle(hashes.ns);
  // A larderd before protocol 1.4 does not know the event with the hashes.
  const bool reports_hashes =
      attachment->welcome().version_minor >= 4 && handle != Attachment::kNoHandle;
  const std::size_t count =
      reports_hashes ? std::min<std::size_t>(hashes.count, protocol::kMaxAskedChunks) : 0;
  for (std::size_t first = 0; first < count; first += protocol::kHashesPerEvent) {
    const std::size_t here = std::min(protocol::kHashesPerEvent, count - first);
    std::array<std::uint64_t, protocol::kHashesPerEvent> words{};
    for (std::size_t i = 0; i < here; ++i) words[i] = hashes.at(first + i).lo;
    attachment->events().add(
        {protocol::EventKind::kAsked, handle,
         protocol::pack_halves(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(here)),
         words[0], words[1], words[2], words[3]});
  }
  attachment->events().add({protocol::EventKind::kRequest, handle, count, request.tokens_asked,
                            request.tokens_hit, request.lookup_ns,
                            static_cast<std::uint64_t>(request.decision),
                            request.salted ? protocol::kRequestSalted : 0});
}

void Client::report(protocol::EventKind kind, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const std::shared_ptr<Attachment> attachment = current();
  if (attachment) attachment->events().add({kind, 0, 0, a, b, c, 0});
}

Status Client::check(Transfer& transfer, bool blocks_left_out) const {
  if (control() == nullptr) return {Code::kFailedPrecondition, "set the namespace first"};
  if (Status status = namespaces_.place(transfer); !status.ok()) return status;
  return pages_.check(transfer, blocks_left_out);
}

Result<std::uint64_t> Client::load(Transfer transfer, std::uint32_t start_within_ms,
                                   bool by_layer) {
  if (Status status = check(transfer, true); !status.ok()) return status;
  if (namespaces_.drop_pending(transfer.ns))
    return Status(Code::kNotFound, "the drop of the namespace is still under way");
  std::shared_ptr<Attachment> attachment = current();
  // A load goes on over the mapping of a lost session: the chunks are still there until larderd's
  // index is dead.
  if (!attachment || attachment->index().dead())
    return Status(Code::kUnavailable, "not attached to larderd");
  Result<std::shared_ptr<const copy::Fence>> after = copies_.after();
  if (!after.ok()) return after.status();
  return loads_.start(std::move(attachment), std::move(transfer), start_within_ms,
                      *std::move(after), by_layer);
}

StoreResult Client::store_finish(std::uint32_t wait_ms) {
  Result<std::shared_ptr<const copy::Fence>> after = copies_.after();
  // Without a fence the pages might be read before the engine has written them. The begun stores
  // are given back.
  if (after.ok()) return stores_.finish(wait_ms, *after);
  stores_.abandon();
  return stores_.finish(0);
}

Result<std::uint64_t> Client::store_submit(std::uint32_t wait_ms) {
  Result<std::shared_ptr<const copy::Fence>> after = copies_.after();
  if (after.ok()) return stores_.submit(wait_ms, *std::move(after));
  stores_.abandon();
  return after.status();
}

Status Client::store_begin(Transfer transfer) {
  if (Status status = check(transfer, false); !status.ok()) return status;
  // During a drop the index still has the old chunks. Such chunks are stored anew, in spite of the
  // index.
  stores_.begin(control()->attached(), transfer, !namespaces_.drop_pending(transfer.ns));
  return {};
}

Status Client::drop_namespace() {
  if (control() == nullptr) return {Code::kFailedPrecondition, "set the namespace first"};
  namespaces_.drop_all();
  return {};
}

}  // namespace larder::client
