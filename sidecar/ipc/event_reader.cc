#include "sidecar/ipc/event_reader.h"

#include <algorithm>
#include <optional>

namespace larder::ipc {

using protocol::EventKind;

namespace {

struct EventCopy {
  EventKind kind;
  std::uint32_t slot;
  std::uint64_t generation, a, b, c, d;
};

// Nothing if the event is being written or was overwritten.
std::optional<EventCopy> copy_event(const protocol::Event& event, std::uint64_t position) {
  constexpr auto kAcquire = std::memory_order_acquire;
  if (event.sequence.load(kAcquire) != position + 1) return std::nullopt;
  const std::uint64_t kind_slot = event.kind_slot.load(kAcquire);
  const EventCopy copy{static_cast<EventKind>(protocol::low_half(kind_slot)),
                       protocol::high_half(kind_slot),
                       event.generation.load(kAcquire),
                       event.a.load(kAcquire),
                       event.b.load(kAcquire),
                       event.c.load(kAcquire),
                       event.d.load(kAcquire)};
  if (event.sequence.load(kAcquire) != position + 1) return std::nullopt;
  return copy;
}

void count_request(const EventCopy& event, stats::Stats& stats, stats::ModelStats& model, std::uint32_t chunk_tokens) {
  ++model.requests;
  model.requests_hit += event.b != 0;
  model.requests_short += event.b == 0 && event.a < chunk_tokens;
  model.tokens_asked += event.a;
  model.tokens_hit += event.b;
  stats.lookup.record(event.c);
}

void apply(const EventCopy& event, store::Store& store, stats::Stats& stats, stats::ModelStats& model,
           std::uint32_t chunk_tokens) {
  switch (event.kind) {
    case EventKind::kNone: return;
    case EventKind::kTouch: store.touch(event.slot, event.generation); return;
    case EventKind::kRequest: count_request(event, stats, model, chunk_tokens); return;
    case EventKind::kLoad:
      model.bytes_loaded += event.a;
      stats.load_wait.record(event.c);
      stats.load_copy.record(event.d);
      return;
    case EventKind::kLoadFailed:
      ++stats.loads_failed;
      stats.checksum_failures += event.a == 1;
      return;
    case EventKind::kStore:
      model.bytes_stored += event.a;
      stats.store_copy.record(event.c);
      return;
    case EventKind::kPrefill:
      model.prefill_tokens += event.a;
      model.prefill_ns += event.b;
      return;
  }
}

}  // namespace

void EventReader::drain(const protocol::SessionRegion& region, store::Store& store, stats::Stats& stats, stats::ModelStats& model,
                        std::uint32_t chunk_tokens) {
  const std::uint64_t head = region.event_head.load(std::memory_order_acquire);
  const std::uint64_t fresh = head - position_;
  if (fresh > protocol::kEventSlots) {  // overrun, or a head that jumped
    stats.events_lost += std::min<std::uint64_t>(fresh - protocol::kEventSlots, protocol::kEventSlots);
    position_ = head - protocol::kEventSlots;
  }
  for (; position_ != head; ++position_) {
    const auto event = copy_event(region.events[position_ % protocol::kEventSlots], position_);
    if (event) {
      apply(*event, store, stats, model, chunk_tokens);
    } else if (unfinished_ != position_) {  // its writer gets until the next call
      unfinished_ = position_;
      return;
    } else {
      ++stats.events_lost;
    }
  }
}

stats::ModelStats& model_row(stats::Stats& stats, const std::string& model) {
  const bool full = stats.models.size() >= stats::kMaxModels - 1;
  const auto find = [&](const std::string& name) {
    return std::find_if(stats.models.begin(), stats.models.end(), [&](const auto& row) { return row.model == name; });
  };
  auto row = find(model);
  if (row == stats.models.end() && full) row = find("other");
  if (row != stats.models.end()) return *row;
  stats.models.emplace_back();
  stats.models.back().model = full ? "other" : model;
  return stats.models.back();
}

}  // namespace larder::ipc
