// What people ask of the loop: each verb waits in the control queue and runs between two turns.
#include "sidecar/base/log.h"
#include "sidecar/ipc/chunk_verbs.h"
#include "sidecar/ipc/event_loop.h"

namespace larder::ipc {

Result<std::uint64_t> EventLoop::drop_namespace(const std::string& id, std::uint32_t deadline_ms) {
  return control_.call(
      [this, id]() -> Result<std::uint64_t> {
        Result<std::uint32_t> handle = store_.namespaces().by_prefix(id);
        if (!handle.ok()) return handle.status();
        const std::uint64_t dropped = store_.drop_namespace(*handle);
        base::log_info("admin: dropped " + std::to_string(dropped) + " chunks of namespace " +
                       store_.namespaces().at(*handle).spec.id.to_hex());
        return dropped;
      },
      deadline_ms);
}

Result<stats::Acted> EventLoop::act(protocol::Verb verb, const std::string& id, const std::vector<protocol::BlockHash>& hashes,
                                    std::uint32_t deadline_ms) {
  // Shared: the caller may leave before the loop comes.
  const auto counts = std::make_shared<store::VerbCounts>();
  const Result<std::uint64_t> done = control_.call(
      [this, verb, id, hashes, counts]() -> Result<std::uint64_t> {
        Result<std::uint32_t> handle = store_.namespaces().by_prefix(id);
        if (!handle.ok()) return handle.status();
        *counts = ipc::act(store_, stats_, verb, *handle, hashes);
        base::log_info("admin: " + std::string(protocol::verb_name(verb)) + ": " + std::to_string(counts->found) + " of " +
                       std::to_string(hashes.size()) + " hashes of namespace " +
                       store_.namespaces().at(*handle).spec.id.to_hex());
        return counts->found;
      },
      deadline_ms);
  if (!done.ok()) return done.status();
  return stats::Acted{counts->found, counts->absent, counts->refused};
}

Result<std::uint64_t> EventLoop::clear(std::uint32_t deadline_ms) {
  return control_.call(
      [this]() -> Result<std::uint64_t> {
        const std::uint64_t dropped = store_.clear();
        base::log_info("admin: cleared, " + std::to_string(dropped) + " chunks dropped");
        return dropped;
      },
      deadline_ms);
}

}  // namespace larder::ipc
