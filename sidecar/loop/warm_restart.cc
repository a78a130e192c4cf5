#include "sidecar/loop/warm_restart.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "shim/base/test_point.h"
#include "sidecar/base/log.h"

namespace larder::loop {
namespace {

// An engine attaches again within 250 ms. An engine that takes longer than the heartbeat timeout
// counts as silent: its holds do not count. Its grants stay quarantined while its lock is held.
constexpr std::uint64_t kRecoveryGraceMs = protocol::kHeartbeatTimeoutMs;

std::string list_of(const std::set<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace

std::uint32_t WarmRestart::restore(std::uint64_t touched_bytes) {
  // Sessions first, then namespaces, then chunks: a chunk under a living writer must be quarantined
  // and not freed.
  memory::PreviousInstance& earlier = parts_.earlier;
  const std::vector<store::SessionNumber> alive = ended_.restore(earlier);
  std::vector<store::EarlierName> names;
  for (const memory::NamespaceJournal::Record& record : earlier.names)
    names.push_back({record.spec, record.handle});
  store_.set_touched_bytes(touched_bytes);
  const store::Store::Restored restored = store_.restore(*earlier.index, names, alive);
  // Into the new journal, for the next restart. Handles may have changed, so the record names the
  // new one.
  for (const auto& [i, handle] : restored.names)
    if (Status status =
            parts_.names.add(earlier.names[i].packet, handle, earlier.names[i].spec.layout_shard);
        !status.ok())
      loop_stats_.note_fallback("restart", status.text());
  stats_.restored_chunks = restored.kept;
  stats_.restore_dropped = restored.dropped;
  grace_from_ms_ = clock_.now_ms();
  base::log_info("warm start: " + std::to_string(restored.kept) + " chunks kept, " +
                 std::to_string(restored.dropped) + " not valid; " +
                 std::to_string(ended_.awaited().size()) +
                 " sessions live, which may still write " +
                 std::to_string(restored.quarantined - restored.own) + " slots");
  // The kernel finishes the reads of a disk after the process died. A slot in the middle of such a
  // read becomes free only for a larderd with the lock of that disk; any other sets the slot aside.
  if (restored.own != 0)
    base::log_warning(
        std::to_string(restored.own) +
        " slots stay set aside, into which the disk of an earlier larderd may still " +
        "read: larderd --free-memory before a start gives them up");
  return alive.empty() ? 0 : std::ranges::max(alive);
}

Status WarmRestart::publish_index() {
  LARDER_POINT(index_unpublished);
  const std::string path = memory::index_path(parts_.config.memory, parts_.shape.epoch);
  // rename() is atomic. A death before leaves the old index as the newest; a death after leaves the
  // new one. Test: tests/crash.
  if (::rename(parts_.index.path.c_str(), path.c_str()) != 0)
    return Status::from_errno(errno, "rename index to " + path);
  parts_.index.path = path;
  published_ = true;
  LARDER_POINT(index_published);
  // Without living engines the old index has no reader, and no grace is needed.
  if (ended_.awaited().empty()) end_grace();
  return {};
}

void WarmRestart::check_recovery_grace(std::uint64_t now_ms, bool slept) {
  if (!store_.in_recovery_grace()) return;
  // The engines may have been stopped too, for example with the whole pod.
  if (slept) grace_from_ms_ = now_ms;
  const bool late = now_ms - grace_from_ms_ > kRecoveryGraceMs;  // mutation: settle-bound
  if (!ended_.awaited().empty() && !late) return;
  if (!ended_.awaited().empty())
    base::log_warning("sessions " + list_of(ended_.awaited()) +
                      " of the earlier larderd have not come back in " +
                      std::to_string(kRecoveryGraceMs) + " ms: their holds do not count");
  end_grace();
}

void WarmRestart::end_grace() {
  ended_.stop_awaiting();
  if (!store_.in_recovery_grace()) return;
  store_.end_recovery_grace();
  ::unlink(parts_.earlier.index_path.c_str());
  ::unlink(parts_.earlier.names_path.c_str());
  // Unmaps the old index, which is as large as the new one.
  parts_.earlier = {};
}

void WarmRestart::note_namespace(const session::Reply::Opened& opened) {
  LARDER_POINT(namespace_unnoted);
  // First forget closed namespaces, so a long-running larderd with many adapters stays below the
  // bound of the file.
  parts_.names.keep([this](std::uint32_t handle) { return store_.namespaces().is_open(handle); });
  if (Status status = parts_.names.add(opened.packet, opened.handle,
                                       opened.spec.layout_shard);  // mutation: namespace-journaled
      !status.ok())
    loop_stats_.note_fallback("restart", "namespace " + opened.spec.id.to_hex() +
                                             " will be gone after a restart: " + status.text());
}

void WarmRestart::leave() {
  if (published_) return;
  // The unpublished index is unfinished. The previous index and the arena stay for the next start.
  ::unlink(parts_.index.path.c_str());
  ::unlink(parts_.names.path().c_str());
  if (!parts_.earlier.index) ::unlink(parts_.arena.path.c_str());
}

void WarmRestart::remove() {
  // Before the unlink: mapped engines see the mark and stop reading.
  store_.mark_index_dead();
  if (parts_.earlier.index) {
    memory::retire_index(parts_.earlier.index_path, protocol::IndexRetirement::kGone);
    ::unlink(parts_.earlier.index_path.c_str());
    ::unlink(parts_.earlier.names_path.c_str());
  }
  ::unlink(parts_.index.path.c_str());
  ::unlink(parts_.names.path().c_str());
  ::unlink(parts_.arena.path.c_str());
}

}  // namespace larder::loop
