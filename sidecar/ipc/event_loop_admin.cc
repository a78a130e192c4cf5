// What people ask of the loop: each verb waits in the control queue and runs between two turns.
#include "sidecar/base/log.h"
#include "sidecar/ipc/chunk_verbs.h"
#include "sidecar/ipc/event_loop.h"

namespace larder::ipc {

Result<std::uint64_t> EventLoop::drop_namespace(const std::string& id, std::uint32_t deadline_ms) {
  return control_.call(
      [this, id, drop = store::Drop()]() mutable -> std::optional<Result<std::uint64_t>> {
        if (!drop.handle) {
          const Result<std::uint32_t> handle = store_.namespaces().by_prefix(id);
          if (!handle.ok()) return handle.status();
          drop.handle = *handle;
        }
        store_.drop(drop);
        if (!drop.done) return std::nullopt;
        base::log_info("admin: dropped " + std::to_string(drop.dropped) + " chunks of namespace " +
                       store_.namespaces().at(*drop.handle).spec.id.to_hex());
        return drop.dropped;
      },
      deadline_ms);
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
        if (!work->go_on(store_, stats_)) return std::nullopt;
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
  return control_.call(
      [this, drop = store::Drop()]() mutable -> std::optional<Result<std::uint64_t>> {
        store_.drop(drop);
        if (!drop.done) return std::nullopt;
        base::log_info("admin: cleared, " + std::to_string(drop.dropped) + " chunks dropped");
        return drop.dropped;
      },
      deadline_ms);
}

}  // namespace larder::ipc
