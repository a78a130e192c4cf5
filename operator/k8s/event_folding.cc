#include "operator/k8s/event_folding.h"

#include <algorithm>

namespace larder::k8s {

bool EventFolding::too_many(const std::string& regarding, std::uint64_t now_ms) {
  if (objects_.size() >= kMostKnown)
    // The bound makes room by time first. If a thousand objects are active within ten minutes,
    // further objects get no Events.
    std::erase_if(objects_,
                  [now_ms](const auto& entry) { return now_ms - entry.second.since_ms >= kOneMs; });
  if (objects_.size() >= kMostKnown && !objects_.contains(regarding)) return true;
  Object& object = objects_.try_emplace(regarding, Object{0, now_ms}).first->second;
  if (now_ms - object.since_ms >= kOneMs) object = {0, now_ms};
  return ++object.events > kMostOfOne;
}

// Forgets expired events, or else the oldest one.
// The oldest entry is the likeliest to end its series anyway.
void EventFolding::make_room(std::uint64_t now_ms) {
  if (known_.size() < kMostKnown) return;
  std::erase_if(known_,
                [now_ms](const auto& entry) { return now_ms - entry.second.last_ms >= kSeriesMs; });
  if (known_.size() < kMostKnown) return;
  known_.erase(
      std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.last_ms; }));
}

EventFolding::Decision EventFolding::take(const EventText& text, const std::string& id,
                                          std::uint64_t now_ms) {
  // An equal event within the series costs no write here. due() writes the count, at most once a
  // minute.
  const auto found = known_.find(text);
  if (found != known_.end() && now_ms - found->second.last_ms < kSeriesMs) {
    ++found->second.count;
    found->second.last_ms = now_ms;
    return Decision::kCounted;
  }
  // Only new events count against the limit of an object: a repeated event is cheap.
  if (too_many(text.regarding, now_ms)) return Decision::kDropped;
  if (found == known_.end()) make_room(now_ms);
  known_.insert_or_assign(text, Known{id, 1, 1, now_ms, now_ms});
  return Decision::kCreate;
}

// A count is marked as recorded when it is taken. A failed write is not repeated, since the next
// count includes it.
std::vector<EventFolding::Count> EventFolding::due(std::uint64_t now_ms) {
  std::vector<Count> counts;
  for (auto& [text, known] : known_) {
    if (known.count == known.recorded || now_ms - known.recorded_ms < kRecordCountMs) continue;
    counts.push_back({known.id, text, known.count});
    known.recorded = known.count;
    known.recorded_ms = now_ms;
  }
  return counts;
}

std::optional<std::uint64_t> EventFolding::next_ms() const {
  std::optional<std::uint64_t> next;
  for (const auto& [text, known] : known_)
    if (known.count != known.recorded)
      next = std::min(next.value_or(UINT64_MAX), known.recorded_ms + kRecordCountMs);
  return next;
}

}  // namespace larder::k8s
