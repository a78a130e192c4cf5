#include "sidecar/loop/admin_commands.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "shim/protocol/namespace_kind.h"
#include "sidecar/base/log_throttle.h"

namespace larder::loop {

namespace {

// Called after the drop is done in memory: waits until each tier has done the drop for good.
// Returns the largest count of a tier, because tiers mostly have the same chunks. A tier may have
// several parts, of several namespaces.
Result<std::uint64_t> with_residency(const Result<std::uint64_t>& dropped,
                                     const tiering::LowerTierDrop& below, const base::Clock& clock,
                                     std::uint64_t end_ms) {
  if (!dropped.ok()) return dropped;
  std::uint64_t most = *dropped;
  std::map<std::string, std::uint64_t> by_tier;
  // Runs on the thread of the caller (HTTP). The loop must never wait for a disk or server.
  for (const tiering::LowerTierDrop::Part& part : below.parts) {
    const bool disk = part.kind == tiering::TierKind::kDisk;
    const std::string done = "dropped from memory, and not found " +
                             std::string(disk ? "on the disk" : "in the backend") +
                             (disk ? " any more; " : " from here any more; ");
    const std::uint64_t left_ms = end_ms - std::min(end_ms, clock.now_ms());
    if (part.ended.wait_for(std::chrono::milliseconds(left_ms)) != std::future_status::ready)
      return Status(Code::kDeadlineExceeded,
                    done +
                        (disk ? "that the drop outlives a restart of larderd"
                              : "that the server has removed the chunks") +
                        " is not confirmed in time");
    const Status status = part.ended.get();
    if (!status.ok())
      return Status(
          status.code(),
          done +
              (disk ? "the disk could not note the drop yet, and a larderd that starts before the "
                      "note may"
                    : "the server has not removed it yet, and until then other larderds, and a "
                      "later one here, may") +
              " find it again: " + status.text());
    most = std::max(most, by_tier[part.name] += *part.chunks);
  }
  return most;
}

// Drops of one namespace in two layouts are one part of a tier,
// if the tier has not begun the first.
void add_parts(tiering::LowerTierDrop& below, const tiering::LowerTierDrop& more) {
  for (const tiering::LowerTierDrop::Part& part : more.parts)
    if (std::ranges::find(below.parts, part.chunks, &tiering::LowerTierDrop::Part::chunks) ==
        below.parts.end())
      below.parts.push_back(part);
}

}  // namespace

Result<std::uint64_t> AdminCommands::drop_namespace(const std::string& id,
                                                    std::uint32_t deadline_ms) {
  const std::uint64_t end_ms = clock_.now_ms() + deadline_ms;
  // Shared with the command: the caller may give up at its deadline while the loop goes on with the
  // drop.
  const auto below = std::make_shared<tiering::LowerTierDrop>();
  const Result<std::uint64_t> dropped = control_.call(
      [this, id, below,
       drops = std::vector<store::Drop>()]() mutable -> std::optional<Result<std::uint64_t>> {
        if (drops.empty()) {
          Result<std::vector<store::Drop>> begun = begin_drop(id, *below);
          if (!begun.ok()) return begun.status();
          if (begun->empty()) return std::uint64_t{0};
          drops = *std::move(begun);
        }
        // One slice a turn: a namespace may have millions of chunks, and sessions are served in
        // between.
        const auto next = std::ranges::find(drops, false, &store::Drop::done);
        drop_slice(*next, *below);
        if (!drops.back().done) return std::nullopt;
        std::uint64_t chunks = 0;
        for (const store::Drop& drop : drops) {
          chunks += drop.dropped;
          store_.leave_namespace(*drop.handle);
        }
        base::log_from("admin drop", base::LogLevel::kInfo,
                       "admin: dropped " + std::to_string(chunks) + " chunks of namespace " + id);
        return chunks;
      },
      deadline_ms);
  return with_residency(dropped, *below, clock_, end_ms);
}

Result<std::vector<store::Drop>> AdminCommands::begin_drop(const std::string& id,
                                                           tiering::LowerTierDrop& below) {
  std::vector<store::Drop> drops;
  // People type the first digits of an id. Only a whole id can name a namespace that this memory
  // does not have.
  const Result<std::vector<std::uint32_t>> handles = store_.namespaces().by_prefix(id);
  const std::optional<protocol::NamespaceId> whole = protocol::NamespaceId::from_hex(id);
  if (!handles.ok() && whole &&
      lower_tiers_ !=
          nullptr) {  // only lower tiers have the namespace: from an earlier run or another larderd
    below = lower_tiers_->drop(*whole);
    base::log_from("admin drop", base::LogLevel::kInfo,
                   "admin: dropped namespace " + id + " from below the memory");
    return drops;
  }
  if (!handles.ok()) return handles.status();
  for (const std::uint32_t handle : *handles) drops.push_back({handle});
  for (const std::string_view line : {protocol::kStatesLine, protocol::kTailsLine}) {
    const std::optional<protocol::NamespaceId> other = id_beside(handles->front(), line);
    const std::vector<std::uint32_t> beside = open_of(other);
    for (const std::uint32_t one : beside) drops.push_back({one});  // mutation: states-dropped
    // The namespace of states or tails closes with its last chunk in memory, while lower tiers
    // still have chunks.
    if (other && beside.empty() && lower_tiers_ != nullptr)
      add_parts(below, lower_tiers_->drop(*other));  // mutation: states-dropped-below
  }
  // Keeps the namespaces open: the place of a closed one may serve another namespace before the
  // last slice.
  for (const store::Drop& drop : drops)
    store_.join_namespace(*drop.handle);  // mutation: drop-joins
  return drops;
}

// One slice of a drop. The first slice also begins the drop in the lower tiers, and removes the
// chunks from the estimate.
void AdminCommands::drop_slice(store::Drop& drop, tiering::LowerTierDrop& below) {
  const bool first = drop.next == 0;
  if (first && drop.handle && store_.namespaces().is_open(*drop.handle))
    reuse_tracker_.dropped(*drop.handle);
  if (first && !drop.handle) reuse_tracker_.dropped();
  store_.drop(drop);
  // The tiers hear of the drop with its first slice, so no chunk comes back from a tier between
  // slices.
  if (!first || lower_tiers_ == nullptr) return;
  add_parts(below, lower_tiers_->last_drop());
}

std::optional<protocol::NamespaceId> AdminCommands::id_beside(std::uint32_t handle,
                                                              std::string_view line) const {
  const std::string& text = *store_.namespaces().at(handle).spec.fingerprint;
  if (!protocol::is_of_whole_chunks(text)) return std::nullopt;
  return protocol::namespace_id(text + std::string(line));
}

std::vector<std::uint32_t> AdminCommands::open_of(
    const std::optional<protocol::NamespaceId>& id) const {
  if (!id) return {};
  const Result<std::vector<std::uint32_t>> found = store_.namespaces().by_prefix(id->to_hex());
  return found.ok() ? *found : std::vector<std::uint32_t>();
}

session::ChunkVerb AdminCommands::work_on_states(protocol::Verb verb, std::uint32_t handle,
                                                 std::vector<protocol::BlockHash> hashes,
                                                 const session::ChunkVerb& tokens) {
  const bool brings = verb == protocol::Verb::kPrefetch || verb == protocol::Verb::kPin;
  // A state behind the first missing chunk of tokens is useless: an engine cannot reach this state.
  if (brings) hashes.resize(tokens.prefix());  // mutation: states-in-prefix
  return {verb, handle, std::move(hashes), brings};
}

Status AdminCommands::reconfigure(const config::Config& config, const std::string& why,
                                  std::uint32_t deadline_ms) {
  const auto take_over = [this, config, why]() -> std::optional<Result<std::uint64_t>> {
    if (lower_tiers_ != nullptr) lower_tiers_->write_by(config);
    loop_stats_.replace_config_fallback(why);
    return std::uint64_t{0};
  };
  const Result<std::uint64_t> done = control_.call(take_over, deadline_ms);
  return done.ok() ? Status() : done.status();
}

Result<protocol::ActCounts> AdminCommands::act(protocol::Verb verb, const std::string& id,
                                               const std::vector<protocol::BlockHash>& hashes,
                                               std::uint32_t deadline_ms) {
  // Shared: the caller may time out before the loop runs the command.
  const auto counts = std::make_shared<protocol::ActCounts>();
  const Result<std::uint64_t> done = control_.call(
      [this, verb, id, hashes = hashes, counts, done = std::size_t{0},
       all = std::vector<session::ChunkVerb>(),
       joined = std::vector<std::uint32_t>()]() mutable -> std::optional<Result<std::uint64_t>> {
        if (all.empty()) {
          const Result<std::vector<std::uint32_t>> handles = store_.namespaces().by_prefix(id);
          if (!handles.ok()) return handles.status();
          all.emplace_back(verb, handles->front(), hashes);
          joined.push_back(handles->front());
          if (const std::vector<std::uint32_t> states =
                  open_of(id_beside(handles->front(), protocol::kStatesLine));
              !states.empty())
            joined.push_back(states.front());
          // Keeps the namespaces open: with its last chunk one would close before the eviction in
          // lower tiers.
          for (const std::uint32_t handle : joined) store_.join_namespace(handle);
        }
        if (!all[done].go_on(store_, stats_,
                             lower_tiers_ != nullptr ? &lower_tiers_->promotions() : nullptr))
          return std::nullopt;
        if (++done == 1 && joined.size() > 1)
          all.push_back(
              work_on_states(verb, joined.back(), hashes, all.front()));  // mutation: states-acted
        if (done < all.size()) return std::nullopt;
        for (const std::uint32_t handle : joined) store_.leave_namespace(handle);
        *counts = all.front().counts();
        const std::string name(protocol::verb_name(verb));
        base::log_from("admin " + name, base::LogLevel::kInfo,
                       "admin: " + name + ": " + std::to_string(counts->found) + " of " +
                           std::to_string(counts->all()) + " hashes of namespace " + id);
        return counts->found;
      },
      deadline_ms);
  if (!done.ok()) return done.status();
  return *counts;
}

Result<std::uint64_t> AdminCommands::clear(std::uint32_t deadline_ms) {
  const std::uint64_t end_ms = clock_.now_ms() + deadline_ms;
  const auto below = std::make_shared<tiering::LowerTierDrop>();
  const Result<std::uint64_t> dropped = control_.call(
      [this, below, drop = store::Drop()]() mutable -> std::optional<Result<std::uint64_t>> {
        drop_slice(drop, *below);
        if (!drop.done) return std::nullopt;
        base::log_from("admin clear", base::LogLevel::kInfo,
                       "admin: cleared, " + std::to_string(drop.dropped) + " chunks dropped");
        return drop.dropped;
      },
      deadline_ms);
  return with_residency(dropped, *below, clock_, end_ms);
}

}  // namespace larder::loop
