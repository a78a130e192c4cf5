// What people ask of the loop: each verb waits in the control queue and runs between two turns.
#include <algorithm>
#include <chrono>

#include "sidecar/base/log.h"
#include "sidecar/ipc/chunk_verbs.h"
#include "sidecar/ipc/event_loop.h"

namespace larder::ipc {

// What the tier below has said of a drop. Shared between the caller, who may leave before the end, and the loop.
struct EventLoop::Below {
  std::shared_future<Status> ended;             // not valid: there is no tier
  std::shared_ptr<const std::uint64_t> chunks;  // that it found, once that is ready

  // The drop is done in memory: waits for the tier's word that it survives a restart. The one has mostly what the other has, too.
  Result<std::uint64_t> with(const Result<std::uint64_t>& dropped, std::uint64_t left_ms) const {
    if (!dropped.ok() || !ended.valid()) return dropped;
    const std::string done = "dropped from memory, and not found on the disk any more; ";
    if (ended.wait_for(std::chrono::milliseconds(left_ms)) != std::future_status::ready)
      return Status(Code::kDeadlineExceeded, done + "that it outlives a restart of larderd is not confirmed in time");
    const Status status = ended.get();
    if (status.ok()) return std::max(*dropped, *chunks);
    return Status(
        status.code(),
        done + "the disk could not note it yet, and a larderd that starts before it can may find it again: " + status.text());
  }
};

Result<std::uint64_t> EventLoop::drop_namespace(const std::string& id, std::uint32_t deadline_ms) {
  const std::uint64_t end_ms = clock_.now_ms() + deadline_ms;
  const auto below = std::make_shared<Below>();
  const Result<std::uint64_t> dropped = control_.call(
      [this, id, below, drop = store::Drop()]() mutable -> std::optional<Result<std::uint64_t>> {
        if (!drop.handle) {
          const Result<std::uint32_t> handle = store_.namespaces().by_prefix(id);
          const std::optional<protocol::NamespaceId> whole = protocol::NamespaceId::from_hex(id);
          if (!handle.ok() && whole && write_down_) {  // of an earlier life, on the disk alone
            *below = {write_down_->drop(*whole), write_down_->last_drop_chunks()};
            base::log_info("admin: dropped namespace " + id + " from the disk");
            return std::uint64_t{0};
          }
          if (!handle.ok()) return handle.status();
          drop.handle = *handle;
        }
        drop_slice(drop, *below);
        if (!drop.done) return std::nullopt;
        base::log_info("admin: dropped " + std::to_string(drop.dropped) + " chunks of namespace " +
                       store_.namespaces().at(*drop.handle).spec.id.to_hex());
        return drop.dropped;
      },
      deadline_ms);
  return below->with(dropped, left_ms(end_ms));
}

// The first slice begins the drop below, too.
void EventLoop::drop_slice(store::Drop& drop, Below& below) {
  const bool first = drop.next == 0;
  store_.drop(drop);
  if (first && write_down_) below = {write_down_->last_drop(), write_down_->last_drop_chunks()};
}

std::uint64_t EventLoop::left_ms(std::uint64_t end_ms) const {
  return end_ms - std::min(end_ms, clock_.now_ms());
}

Result<protocol::ActCounts> EventLoop::act(protocol::Verb verb, const std::string& id,
                                           const std::vector<protocol::BlockHash>& hashes, std::uint32_t deadline_ms) {
  // Shared: the caller may leave before the loop comes.
  const auto counts = std::make_shared<protocol::ActCounts>();
  const Result<std::uint64_t> done = control_.call(
      [this, verb, id, hashes = hashes, counts,
       work = std::optional<ChunkVerb>()]() mutable -> std::optional<Result<std::uint64_t>> {
        if (!work) {
          const Result<std::uint32_t> handle = store_.namespaces().by_prefix(id);
          if (!handle.ok()) return handle.status();
          work.emplace(verb, *handle, std::move(hashes));
        }
        if (!work->go_on(store_, stats_, promotions_.get())) return std::nullopt;
        *counts = work->counts();
        base::log_info("admin: " + std::string(protocol::verb_name(verb)) + ": " + std::to_string(counts->found) + " of " +
                       std::to_string(counts->all()) + " hashes of namespace " + id);
        return counts->found;
      },
      deadline_ms);
  if (!done.ok()) return done.status();
  return *counts;
}

Result<std::uint64_t> EventLoop::clear(std::uint32_t deadline_ms) {
  const std::uint64_t end_ms = clock_.now_ms() + deadline_ms;
  const auto below = std::make_shared<Below>();
  const Result<std::uint64_t> dropped = control_.call(
      [this, below, drop = store::Drop()]() mutable -> std::optional<Result<std::uint64_t>> {
        drop_slice(drop, *below);
        if (!drop.done) return std::nullopt;
        base::log_info("admin: cleared, " + std::to_string(drop.dropped) + " chunks dropped");
        return drop.dropped;
      },
      deadline_ms);
  return below->with(dropped, left_ms(end_ms));
}

}  // namespace larder::ipc
