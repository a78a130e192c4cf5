// Drops, which go to the tier before the first chunk leaves memory, and the last writes at a stop.
#include <algorithm>

#include "sidecar/base/log_throttle.h"
#include "sidecar/tiering/tier_writer.h"

namespace larder::tiering {
namespace {

using tiers::Message;

constexpr std::uint64_t kDropMs = 30'000;
constexpr std::uint32_t kSliceSlots = 4096;
// The loop no longer turns at a stop, so the wait must end by itself to look at the clock.
constexpr int kWaitMs = 50;
constexpr std::uint64_t kCloseMs = 1000;

}  // namespace

// The tier hides the namespace at once. No chunk of the namespace is written while the drop empties
// memory slice by slice.
std::shared_ptr<void> TierWriter::dropping(std::optional<std::uint32_t> handle) {
  std::optional<protocol::NamespaceId> id;
  if (handle) id = store_.namespaces().at(*handle).spec.id;
  drop(id);
  // The store holds this token while emptying memory. The end of the token lets writes of the
  // namespace go on.
  const auto going_on = std::make_shared<int>();
  dropping_.push_back({id, going_on});
  return going_on;
}

bool TierWriter::waits_for_drop(const protocol::NamespaceId& id) const {
  return std::ranges::any_of(
      drops_, [&](const Drop& drop) { return drop.ticket == 0 && (!drop.id || *drop.id == id); });
}

std::shared_future<Status> TierWriter::drop_under_way(const protocol::NamespaceId& id) const {
  const auto newest = std::find_if(drops_.rbegin(), drops_.rend(),
                                   [&](const Drop& drop) { return !drop.id || *drop.id == id; });
  return newest != drops_.rend() ? newest->future : std::shared_future<Status>();
}

bool TierWriter::is_dropping(const protocol::NamespaceId& id) const {
  return waits_for_drop(id) || std::ranges::any_of(dropping_, [&](const Dropping& one) {
           return !one.going_on.expired() && (!one.id || *one.id == id);
         });
}

std::shared_future<Status> TierWriter::drop(const std::optional<protocol::NamespaceId>& id) {
  // A drop that still waits for the tier serves both requests.
  const auto waiting = std::ranges::find_if(
      drops_, [&](const Drop& drop) { return drop.ticket == 0 && drop.id == id; });
  if (waiting != drops_.end()) {
    last_drop_chunks_ = waiting->chunks;
    return last_drop_ = waiting->future;
  }
  Drop& drop = drops_.emplace_back();
  last_drop_chunks_ = drop.chunks;
  drop.id = id;
  drop.by_ns = in_ms(kDropMs);
  // Shared: the session and a person at the admin API wait for the same result.
  drop.future = last_drop_ = drop.ended.get_future().share();
  const std::shared_future<Status> ended = drop.future;
  send_drops();
  return ended;
}

void TierWriter::send_drops() {
  for (auto drop = drops_.begin(); drop != drops_.end();) {
    // One drop of a namespace at a time: an engine that drops without end takes no room from
    // others.
    const bool under_way = drop->ticket != 0 || std::ranges::any_of(drops_, [&](const Drop& one) {
                             return one.ticket != 0 && one.id == drop->id;
                           });
    if (under_way) {
      ++drop;
      continue;
    }
    const tiers::Ticket ticket = link_.next_ticket();
    const Status taken = drop->id ? link_.tier().drop_namespace(ticket, *drop->id, drop->by_ns)
                                  : link_.tier().clear(ticket, drop->by_ns);
    if (taken.code() == Code::kResourceExhausted)
      return;  // keeps the order; the next tick asks again
    if (taken.ok()) {
      (drop++)->ticket = ticket;
    } else {
      drop->ended.set_value(taken);
      drop = drops_.erase(drop);
    }
  }
}

void TierWriter::drop_ended(const Message& message) {
  const auto found =
      std::ranges::find_if(drops_, [&](const Drop& drop) { return drop.ticket == message.ticket; });
  if (found == drops_.end()) return;
  if (!message.status.ok())
    base::log_from(link_.name() + " tier, drops", base::LogLevel::kWarning,
                   link_.name() + " tier: a drop is not noted there yet: " + message.status.text());
  *found->chunks = message.dropped;
  found->ended.set_value(message.status);
  drops_.erase(found);
  send_drops();
}

void TierWriter::finish(std::uint64_t by_ns) {
  const std::uint64_t written_before = written_, from_ns = clock_.now_ns();
  const bool all = write_rest(by_ns);  // mutation: stop-writes-rest
  const bool flushed = flush(by_ns);
  if (!link_.tier().close(kCloseMs))
    base::log_warning(link_.name() + " tier: the device did not answer in time at the stop");
  base::log_info(link_.name() + " tier: " + std::to_string(written_ - written_before) +
                 " chunks written at the stop in " +
                 std::to_string((clock_.now_ns() - from_ns) / 1'000'000) + " ms" +
                 (all ? "" : ", not all of them") +
                 (flushed ? "" : "; not known to survive the machine's failure"));
}

// Offers every chunk once, except refused chunks in a pause. False: some chunks are not written.
bool TierWriter::write_rest(std::uint64_t by_ns) {
  std::uint32_t next = 0;
  ahead_.clear();
  queued_.clear();
  for (;;) {
    while (queued_.empty() && next != store::kNoSlot) {
      found_.clear();
      next = store_.tiers().walk(link_.number(), next, kSliceSlots, found_,
                                 true);  // the tier may have lost written chunks
      queued_.assign(found_.begin(), found_.end());
    }
    pump();
    send_drops();
    if (puts_.empty() && drops_.empty() && queued_.empty() && next == store::kNoSlot)
      return refused_.empty();
    // close() waits for slots that a hanging device still uses.
    if (clock_.now_ns() >= by_ns || !link_.tier().state().takes_puts) return false;
    if (!puts_.empty() || !drops_.empty() || !queued_.empty()) link_.wait(kWaitMs);
  }
}

bool TierWriter::flush(std::uint64_t by_ns) {
  // A sync on a failing device would only take the rest of the grace.
  if (link_.tier().state().degraded()) return false;
  flush_ticket_ = link_.next_ticket();
  if (!link_.tier().flush(flush_ticket_, by_ns).ok()) return false;
  while (!flushed_ && clock_.now_ns() < by_ns) link_.wait(kWaitMs);
  return flushed_ && flushed_->ok();
}

}  // namespace larder::tiering
