// The warm restart: the takeover from the previous instance, the recovery grace, and the files for
// the next instance.
#include <algorithm>
#include <set>

#include "shim/base/test_point.h"
#include "sidecar/base/log.h"
#include "sidecar/loop/event_loop.h"

namespace larder::loop {
namespace {

// An engine attaches again within 250 ms. An engine that takes longer than the heartbeat timeout
// counts as silent: its holds do not count. Its grants stay quarantined while its lock is held.
constexpr std::uint64_t kSettlingMs = protocol::kHeartbeatTimeoutMs;
constexpr int kLastTurns = 64;             // a stop handles messages for so many turns
constexpr std::uint64_t kLastMs = 2000;    // and messages of many slices for so long
constexpr std::uint64_t kStopMs = 20'000;  // for pending writes to lower tiers: a pod has 30 s until SIGKILL

std::string list_of(const std::set<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace

void EventLoop::restore() {
  memory::PreviousInstance& earlier = parts_.earlier;
  const std::vector<store::SessionNumber> alive = ended_.restore(earlier);
  for (const store::SessionNumber number : alive) next_session_ = std::max(next_session_, number + 1);
  std::vector<store::EarlierName> names;
  for (const memory::NamespaceJournal::Record& record : earlier.names) names.push_back({record.spec, record.handle});
  store_.set_touched_bytes(prefaulter_.touched_bytes());
  const store::Store::Restored restored = store_.restore(*earlier.index, names, alive);
  for (const auto& [i, handle] : restored.names)
    if (Status status = parts_.names.add(earlier.names[i].packet, handle, earlier.names[i].spec.layout_shard); !status.ok())
      loop_stats_.note_fallback("restart", status.text());
  stats_.restored_chunks = restored.kept;
  stats_.restore_dropped = restored.dropped;
  settling_from_ms_ = clock_.now_ms();
  base::log_info("warm start: " + std::to_string(restored.kept) + " chunks kept, " + std::to_string(restored.dropped) +
                 " not valid; " + std::to_string(ended_.awaited().size()) + " sessions live, which may still write " +
                 std::to_string(restored.quarantined - restored.own) + " slots");
  if (restored.own != 0)
    base::log_warning(std::to_string(restored.own) +
                      " slots stay set aside, into which the disk of an earlier larderd may still " +
                      "read: larderd --free-memory before a start gives them up");
}

Status EventLoop::publish_index() {
  LARDER_POINT(index_unpublished);
  const std::string path = memory::index_path(parts_.config.memory, parts_.shape.epoch);
  if (::rename(parts_.index.path.c_str(), path.c_str()) != 0) return Status::from_errno(errno, "rename index to " + path);
  parts_.index.path = path;
  published_ = true;
  LARDER_POINT(index_published);
  if (ended_.awaited().empty()) settle();
  return {};
}

// Ends the recovery grace once every session of the previous instance has announced holds and
// grants again, or after kSettlingMs. Until then the store hands on no slot that held a chunk.
void EventLoop::check_settled(std::uint64_t now_ms, bool slept) {
  if (!store_.settling()) return;
  if (slept) settling_from_ms_ = now_ms;
  const bool late = now_ms - settling_from_ms_ > kSettlingMs;  // mutation: settle-bound
  if (!ended_.awaited().empty() && !late) return;
  if (!ended_.awaited().empty())
    base::log_warning("sessions " + list_of(ended_.awaited()) + " of the earlier larderd have not come back in " +
                      std::to_string(kSettlingMs) + " ms: their holds do not count");
  settle();
}

void EventLoop::settle() {
  ended_.stop_awaiting();
  if (!store_.settling()) return;
  store_.settled();
  ::unlink(parts_.earlier.index_path.c_str());
  ::unlink(parts_.earlier.names_path.c_str());
  parts_.earlier = {};
}

// Called before the engine can store into the namespace: the next larderd needs the text and layout
// for every chunk.
void EventLoop::note_namespace(const session::Reply::Opened& opened) {
  LARDER_POINT(namespace_unnoted);
  parts_.names.keep([this](std::uint32_t handle) { return store_.namespaces().is_open(handle); });
  if (Status status = parts_.names.add(opened.packet, opened.handle, opened.spec.layout_shard);  // mutation: namespace-journaled
      !status.ok())
    loop_stats_.note_fallback("restart",
                              "namespace " + opened.spec.id.to_hex() + " will be gone after a restart: " + status.text());
}

// Tells engines that their sessions end, after handling the messages that engines sent before.
// Grants that engines still write stay with them in the next instance.
void EventLoop::say_goodbye() {
  LARDER_POINT(stopping);
  const Status why(Code::kUnavailable, "larderd is stopping");
  while (!parts_.config.memory.keep_on_exit && !connections_.empty()) fail_session(connections_.begin()->first, why);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, connection] : connections_) numbers.push_back(number);
  const std::uint64_t end_ms = clock_.now_ms() + kLastMs;
  for (int i = 0; i < kLastTurns; ++i) {
    for (const std::uint32_t number : numbers) receive(number);
    while (clock_.now_ms() < end_ms && go_on_with_a_session()) {
    }
  }
  for (const std::uint32_t number : numbers) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) continue;
    [[maybe_unused]] const Status sent = protocol::send_packet(found->second->socket.get(), session::error_packet(why));
  }
}

// Writes the chunks that the write policies promised to the lower tiers. The listening socket
// closes first, so that engines cannot attach to a stopping larderd.
void EventLoop::write_rest() {
  if (!lower_tiers_) return;
  parts_.listener.reset();
  lower_tiers_->finish(clock_.now_ns() + kStopMs * 1'000'000);
}

// Leaves for the next start: the arena, the index, and the lock files of engines that may still
// read or write.
void EventLoop::leave_files() {
  for (auto& [number, connection] : connections_) {
    const bool attached = connection->protocol.state() == session::SessionProtocol::State::kAttached;
    // A GPU may still write after the end of its process.
    connection->lock.set_kept((attached && connection->lock.held()) ||  // mutation: restart-locks-kept
                              connection->lock.device_writes());
  }
  ended_.keep_locks();
  if (published_) return;
  ::unlink(parts_.index.path.c_str());
  ::unlink(parts_.names.path().c_str());
  if (!parts_.earlier.index) ::unlink(parts_.arena.path.c_str());
}

void EventLoop::remove_files() {
  store_.mark_index_dead();
  if (parts_.earlier.index) {
    memory::retire_index(parts_.earlier.index_path, protocol::LifeEnd::kGone);
    ::unlink(parts_.earlier.index_path.c_str());
    ::unlink(parts_.earlier.names_path.c_str());
  }
  ::unlink(parts_.index.path.c_str());
  ::unlink(parts_.names.path().c_str());
  ::unlink(parts_.arena.path.c_str());
}

}  // namespace larder::loop
