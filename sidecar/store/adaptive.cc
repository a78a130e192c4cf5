#include "sidecar/store/adaptive.h"

#include <algorithm>

namespace larder::store {
namespace {
constexpr std::uint64_t kLeastGhosts = 1 << 18;  // else one a slot: 8 bytes, as its mark
// The model follows the traffic of so many uses, and of so many times the memory.
constexpr std::uint64_t kLeastWindow = 65536, kWindow = 16;
constexpr std::uint64_t kLeastRefresh = 512, kRefreshShare = 8;
constexpr std::uint64_t kMostUses = 31, kMostAt = (1ULL << 48) - 1;
// A parent with more uses is a system prompt or a document: prompts part behind it.
constexpr std::uint64_t kShared = 6;

// The uses of the chunk in front of a stored chunk.
enum Origin : std::uint8_t { kNothing, kUsedTwice, kUsedSometimes, kUsedOften };
Origin origin_behind(std::uint64_t uses) {
  return uses <= 2 ? kUsedTwice : uses < kShared ? kUsedSometimes : kUsedOften;
}
}  // namespace

Adaptive::Adaptive(SlotTable& table, std::uint64_t entry_count)
    : table_(table), marks_(entry_count), ghosts_(std::max(kLeastGhosts, entry_count)) {}

int Adaptive::kind_of(std::uint64_t uses, std::uint64_t origin) {
  if (uses <= 1) return static_cast<int>(origin);
  if (uses == 2) return static_cast<int>(4 + origin);
  return uses == 3 ? 8 : uses <= 5 ? 9 : uses <= 8 ? 10 : uses <= 14 ? 11 : 12;
}

SlotList& Adaptive::list_of(std::uint32_t slot, std::uint32_t size_class) {
  SizeClass& of_size = classes_[size_class];
  if (table_.note(slot).guest != 0) return of_size.guests;
  const Mark mark = marks_[slot];
  return of_size
      .own[static_cast<std::size_t>(kind_of(mark.uses, mark.origin)) * kLanes + mark.lane];
}

void Adaptive::insert(std::uint32_t slot, std::uint32_t size_class) {
  if (size_class >= classes_.size()) classes_.resize(size_class + 1);
  marks_[slot].at = clock_ & kMostAt;
  table_.push_back(list_of(slot, size_class), slot);
  ++candidates_;
}

void Adaptive::insert_below(std::uint32_t slot, std::uint32_t above, std::uint32_t size_class) {
  SlotList& list = list_of(slot, size_class);
  marks_[slot].at = marks_[above].at;
  ++candidates_;
  if (&list == &list_of(above, size_class)) return table_.insert_before(list, slot, above);
  table_.push_back(list, slot);
}

void Adaptive::erase(std::uint32_t slot, std::uint32_t size_class) {
  table_.remove(list_of(slot, size_class), slot);
  --candidates_;
}

std::size_t Adaptive::first_victims(std::uint32_t size_class,
                                    std::span<std::uint32_t> slots) const {
  if (size_class >= classes_.size()) return 0;
  const SizeClass& of_size = classes_[size_class];
  std::size_t found = 0;
  for (std::uint32_t slot = of_size.guests.first; slot != kNoSlot && found < slots.size();
       slot = table_.next(slot))
    slots[found++] = slot;
  return found + take_coldest(of_size, slots.subspan(found));
}

std::uint32_t Adaptive::first_own_victim(std::uint32_t size_class) const {
  std::uint32_t slot = kNoSlot;
  if (size_class < classes_.size()) take_coldest(classes_[size_class], std::span(&slot, 1));
  return slot;
}

// Writes the slots of the least worth into `slots`. Returns the number.
std::size_t Adaptive::take_coldest(const SizeClass& of_size, std::span<std::uint32_t> slots) const {
  struct Head {
    float worth;
    std::uint32_t slot;
    int kind;
    std::uint64_t age;
    bool operator<(const Head& other) const {
      return worth != other.worth ? worth < other.worth : age > other.age;
    }
  };
  std::array<Head, kLists> heads;
  std::size_t count = 0;
  const auto head = [this](std::uint32_t slot, int kind) {
    if (const std::uint32_t behind = table_.next(slot); behind != kNoSlot) table_.prefetch(behind);
    return Head{model_.worth(kind, age(slot)), slot, kind, age(slot)};
  };
  for (std::uint32_t list = 0; list < kLists; ++list)
    if (of_size.own[list].first != kNoSlot)
      heads[count++] = head(of_size.own[list].first, static_cast<int>(list / kLanes));
  for (std::size_t found = 0; found < slots.size(); ++found) {
    if (count == 0) return found;
    Head& coldest = *std::min_element(heads.begin(), heads.begin() + static_cast<long>(count));
    slots[found] = coldest.slot;
    const std::uint32_t behind = table_.next(coldest.slot);
    coldest = behind == kNoSlot ? heads[--count] : head(behind, coldest.kind);
  }
  return slots.size();
}

void Adaptive::stored(std::uint32_t slot, std::uint64_t name, std::uint32_t parent) {
  tick();
  Mark mark{.at = clock_ & kMostAt, .uses = 1, .origin = kNothing, .lane = name % kLanes};
  if (const std::optional<Ghost> ghost = ghosts_.take(name)) {
    const int left_at = static_cast<int>(ghost->left_at);
    const int step = ReuseModel::step_of(GhostTable::age(*ghost, clock_));
    model_.used_again(kind_of(ghost->uses, ghost->origin),
                      std::min(left_at + 1, ReuseModel::kSteps - 1),
                      std::max(step, std::min(left_at + 1, ReuseModel::kSteps - 1)));
    mark.uses = std::min<std::uint64_t>(ghost->uses + 1U, kMostUses) & kMostUses;
  }
  if (parent != kNoSlot) {
    const Mark ahead = marks_[parent];
    mark.uses =
        std::clamp<std::uint64_t>(mark.uses, 1, std::max<std::uint64_t>(ahead.uses, 1)) & kMostUses;
    mark.origin = (ahead.uses <= 1 ? ahead.origin : std::uint64_t{origin_behind(ahead.uses)}) & 3;
    if (ahead.uses <= kShared) mark.lane = ahead.lane;
  }
  marks_[slot] = mark;
}

void Adaptive::used(std::uint32_t slot) {
  tick();
  Mark& mark = marks_[slot];
  model_.used_again(kind_of(mark.uses, mark.origin), 0, ReuseModel::step_of(age(slot)));
  if (mark.uses < kMostUses) ++mark.uses;
}

void Adaptive::evicted(std::uint32_t slot, std::uint64_t name) {
  const Mark mark = marks_[slot];
  const int step = ReuseModel::step_of(age(slot));
  model_.waited(kind_of(mark.uses, mark.origin), 0, step);
  const Ghost ghost{.tag = 0,
                    .uses = std::max<std::uint64_t>(mark.uses, 1) & kMostUses,
                    .origin = mark.origin,
                    .left_at = static_cast<std::uint64_t>(step) & 63,
                    .stamp = mark.at & GhostTable::kMostAge};
  if (const std::optional<Ghost> gone = ghosts_.put(name, ghost, clock_)) {
    const int from = std::min(static_cast<int>(gone->left_at) + 1, ReuseModel::kSteps - 1);
    model_.waited(kind_of(gone->uses, gone->origin), from,
                  ReuseModel::step_of(GhostTable::age(*gone, clock_)));
  }
}

// One more use or store.
void Adaptive::tick() {
  ++clock_;
  if (++since_fade_ >= std::max(kLeastWindow, kWindow * candidates_) / 2) {
    model_.fade();
    since_fade_ = 0;
  }
  if (++since_refresh_ < std::max(kLeastRefresh, candidates_ / kRefreshShare)) return;
  model_.refresh();
  since_refresh_ = 0;
}

}  // namespace larder::store
