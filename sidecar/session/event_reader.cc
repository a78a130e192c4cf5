#include "sidecar/session/event_reader.h"

#include <algorithm>
#include <optional>

namespace larder::session {

using protocol::EventKind;

struct EventReader::Copy {
  EventKind kind;
  std::uint32_t slot;
  std::uint64_t generation, a, b, c, d, flags;
};

namespace {

// Values hits by the measured prefill speed of the engines. Hits before the first measurement are
// valued when the speed is known.
void value_hits(stats::ModelStats& model, std::uint64_t tokens_hit) {
  // Hits may come before the engine has computed any prompt, for example after a warm restart.
  model.tokens_not_valued += tokens_hit;
  if (model.prefill_tokens == 0) return;
  const double ns_a_token =
      static_cast<double>(model.prefill_ns) / static_cast<double>(model.prefill_tokens);
  model.prefill_saved_ns +=
      static_cast<std::uint64_t>(static_cast<double>(model.tokens_not_valued) * ns_a_token);
  model.tokens_not_valued = 0;
}

// `number` comes from the engine: a value of a newer version, or a forged value, counts as unknown.
std::size_t decision_of(std::uint64_t number) {
  constexpr std::size_t kUnknown = stats::kDecisions.size() - 1;
  return number >= 1 && number <= kUnknown ? number - 1 : kUnknown;
}

}  // namespace

// Empty if the event is unfinished or was overwritten.
std::optional<EventReader::Copy> EventReader::copy_event(const protocol::Event& event,
                                                         std::uint64_t position) {
  constexpr auto kAcquire = std::memory_order_acquire;
  // A seqlock for each event: the engine writes the payload, then the sequence. The second check
  // below finds an event that the engine overwrote during the copy. The fields are atomics, so a
  // race is no undefined behaviour.
  if (event.sequence.load(kAcquire) != position + 1) return std::nullopt;
  const std::uint64_t kind_slot = event.kind_slot.load(kAcquire);
  const Copy copy{static_cast<EventKind>(protocol::low_half(kind_slot)),
                  protocol::high_half(kind_slot),
                  event.generation.load(kAcquire),
                  event.a.load(kAcquire),
                  event.b.load(kAcquire),
                  event.c.load(kAcquire),
                  event.d.load(kAcquire),
                  event.flags.load(kAcquire)};
  if (event.sequence.load(kAcquire) != position + 1) return std::nullopt;
  return copy;
}

// Collects hashes of the next request. A lost event also loses the hashes behind it.
void EventReader::gather(const Copy& event) {
  const std::uint32_t first = protocol::low_half(event.generation),
                      count = protocol::high_half(event.generation);
  // A request of more than kHashesPerEvent chunks takes several events. `first` says the place, so
  // a gap is noticed and no wrong list of hashes is built.
  if (first == 0) asked_.clear();
  if (first != asked_.size() || count > protocol::kHashesPerEvent ||
      first + count > protocol::kMaxAskedChunks)
    return;
  const std::uint64_t hashes[protocol::kHashesPerEvent] = {event.a, event.b, event.c, event.d};
  asked_.insert(asked_.end(), hashes, hashes + count);
}

void EventReader::count_request(const Copy& event, const To& to) {
  ++to.model.requests;
  to.model.requests_hit += event.b != 0;
  // A prompt below one chunk can never hit: a high share here explains a low hit rate.
  to.model.requests_short += event.b == 0 && event.a < to.chunk_tokens;
  to.model.requests_salted += (event.flags & protocol::kRequestSalted) != 0;
  to.model.tokens_asked += event.a;
  to.model.tokens_hit += event.b;
  value_hits(to.model, event.b);
  to.stats.lookup.record(event.c);
  ++to.stats.decisions[decision_of(event.d)];
  // Only complete requests of open namespaces reach the estimate: a forged handle must not index
  // the table of namespaces.
  const bool whole = event.d != 0 && event.generation == asked_.size();
  if (whole && std::ranges::find(to.namespaces, event.slot) != to.namespaces.end())
    to.demand.asked(event.slot, asked_, event.a, event.b);
  asked_.clear();
}

void EventReader::apply(const Copy& event, const To& to) {
  switch (event.kind) {
    case EventKind::kNone: return;
    // store::Store::touch() checks slot and generation, since both come from the engine.
    case EventKind::kTouch: to.store.touch(event.slot, event.generation); return;
    case EventKind::kAsked: gather(event); return;
    case EventKind::kRequest: count_request(event, to); return;
    case EventKind::kLoad:
      ++to.stats.loads;
      to.model.bytes_loaded += event.a;
      to.stats.load_wait.record(event.c);
      to.stats.load_copy.record(event.d);
      return;
    case EventKind::kLoadFailed:
      ++to.stats.loads_failed;
      to.stats.checksum_failures += event.a == 1;
      return;
    case EventKind::kStore:
      ++to.stats.stored;
      to.model.bytes_stored += event.a;
      to.stats.store_copy.record(event.c);
      return;
    case EventKind::kPrefill:
      to.model.prefill_tokens += event.a;
      to.model.prefill_ns += event.b;
      value_hits(to.model, 0);
      return;
  }
}

void EventReader::drain(const protocol::SessionRegion& region, const To& to,
                        Unfinished unfinished) {
  // One load of the head for the whole call. A second load would let an engine that writes all the
  // time keep the loop here.
  const std::uint64_t head = region.event_head.load(std::memory_order_acquire);
  const std::uint64_t fresh = head - position_;
  if (fresh == 0) return;
  to.store.begin_uses();
  if (fresh > protocol::kEventSlots) {  // an overrun, or a forged head
    to.stats.events_lost +=
        std::min<std::uint64_t>(fresh - protocol::kEventSlots, protocol::kEventSlots);
    position_ = head - protocol::kEventSlots;
  }
  for (; position_ != head; ++position_) {
    // Each event counts, so that an engine with a full ring at each message ends its turn early.
    to.store.spend(1);  // mutation: event-effort
    const auto event = copy_event(region.events[position_ % protocol::kEventSlots], position_);
    if (event) {
      apply(*event, to);
    } else if (unfinished == Unfinished::kWaits) {  // mutation: unfinished-waits
      return;
    } else if (unfinished == Unfinished::kOneTick &&  // mutation: unfinished-end
               unfinished_ != position_) {            // the writer has until the next tick
      unfinished_ = position_;
      return;
    } else {
      ++to.stats.events_lost;
    }
  }
}

stats::ModelStats& model_row(stats::Stats& stats, const std::string& model) {
  // Engines choose model names, and each name becomes labels of metrics. The bound keeps the time
  // series of Prometheus finite; the last row is "other".
  const bool full = stats.models.size() >= stats::kMaxModels - 1;
  const auto find = [&](const std::string& name) {
    return std::find_if(stats.models.begin(), stats.models.end(),
                        [&](const auto& row) { return row.model == name; });
  };
  auto row = find(model);
  if (row == stats.models.end() && full) row = find("other");
  if (row != stats.models.end()) return *row;
  stats.models.emplace_back();
  stats.models.back().model = full ? "other" : model;
  return stats.models.back();
}

}  // namespace larder::session
