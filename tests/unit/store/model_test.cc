// Random operations against a reference: a list of chunks in order of use, and a set of slots that
// a session may still touch.
//
// Keys 2n and 2n + 1 are the two shards of one family. The arena is small, so that the store looks
// at one victim, then at two, four and so on, and the reference knows exactly which. A failure
// prints its seed.
#include <list>
#include <random>
#include <set>

#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

constexpr std::uint32_t kModelSlots = 24;
constexpr std::uint64_t kModelKeys = 40;
constexpr std::uint32_t kSessions = 3;
constexpr std::uint32_t kHoldPlaces = 6;

struct Chunk {
  std::uint64_t key;
  protocol::Grant grant;
  std::uint64_t root;
  bool pinned = false;
};

class Reference {
 public:
  explicit Reference(std::uint64_t seed) : random_(seed), box_(kModelSlots) {
    for (SessionNumber s = 1; s <= kSessions; ++s) add_session(s);
    next_session_ = kSessions + 1;
  }

  void step() {
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
      case 3: return reserve();
      case 4:
      case 5:
      case 6: return commit();
      case 7: return pick(4) == 0 ? disown() : touch();
      case 8: return pick(5) == 0 ? pin_or_unpin() : hold();
      case 9: return pick(6) == 0 ? (pick(2) == 0 ? bad() : evict()) : sweep();
      case 10: return pick(10) == 0 ? set_silent() : pick(6) == 0 ? demote() : touch();
      default: return pick(20) == 0 ? end_session() : release_one();
    }
  }

  void check() {
    for (std::uint64_t key = 0; key < kModelKeys; ++key) {
      const auto found = box_.reader().find(name(key));
      const auto chunk = committed(key);
      ASSERT_EQ(found.has_value(), chunk != order_.end()) << "key " << key;
      if (!found) continue;
      ASSERT_EQ(found->slot, chunk->grant.slot);
      ASSERT_EQ(found->generation, chunk->grant.generation);
      ASSERT_EQ(found->root, chunk->root);
    }
    const stats::Stats stats = box_.filled();
    ASSERT_EQ(stats.slots_committed, order_.size());
    ASSERT_EQ(stats.slots_granted, granted_.size());
    ASSERT_EQ(stats.slots_quarantined, quarantined_.size());
    ASSERT_EQ(stats.slots_pinned, std::count_if(order_.begin(), order_.end(),
                                                [](const Chunk& chunk) { return chunk.pinned; }));
    ASSERT_EQ(stats.pinned_bytes, stats.slots_pinned * StoreBox::kSlotBytes);
    // Every slot in one place, every byte in a free span or an extent.
    ASSERT_EQ(
        box_.free_slots() + order_.size() + granted_.size() + quarantined_.size() + doomed_.size(),
        kModelSlots);
    std::uint64_t slots = 0, used = 0;
    for (const stats::SlotSizeStats& size : stats.slot_sizes) {
      slots += size.slots;
      used += size.used;
    }
    ASSERT_EQ(slots * StoreBox::kSlotBytes + stats.unused_bytes,
              kModelSlots * StoreBox::kSlotBytes);
    ASSERT_EQ(used, order_.size() + granted_.size() + quarantined_.size() + doomed_.size());
  }

 private:
  struct Session {
    bool silent = false;
    protocol::Grant holds[kHoldPlaces] = {};
  };
  struct Writing {
    SessionNumber session;
    std::uint64_t key;
    protocol::Grant grant;
  };

  std::uint64_t pick(std::uint64_t bound) { return random_() % bound; }
  SessionNumber any_session() {
    return std::next(sessions_.begin(), static_cast<long>(pick(sessions_.size())))->first;
  }
  void add_session(SessionNumber number) {
    box_.add_session(number);
    sessions_[number];
  }
  std::list<Chunk>::iterator committed(std::uint64_t key) {
    return std::find_if(order_.begin(), order_.end(),
                        [&](const Chunk& chunk) { return chunk.key == key; });
  }
  bool held(const protocol::Grant& grant) const {
    for (const auto& [number, session] : sessions_) {
      if (session.silent) continue;
      for (const protocol::Grant& hold : session.holds)
        if (hold.generation == grant.generation && hold.slot == grant.slot) return true;
    }
    return false;
  }

  protocol::Key name(std::uint64_t key) const {
    return key % 2 == 0 ? box_.key(key / 2) : box_.sibling(key / 2);
  }
  bool writing(std::uint64_t key) const {
    return std::any_of(granted_.begin(), granted_.end(),
                       [&](const Writing& w) { return w.key == key; });
  }
  std::vector<std::list<Chunk>::iterator> family(std::uint64_t key) {
    std::vector<std::list<Chunk>::iterator> found;
    for (const std::uint64_t member : {key / 2 * 2, key / 2 * 2 + 1})
      if (const auto chunk = committed(member); chunk != order_.end()) found.push_back(chunk);
    return found;
  }
  void use(std::list<Chunk>::iterator chunk) {
    if (!chunk->pinned) order_.splice(order_.end(), order_, chunk);
  }

  // The store's work for room: the families of the coldest chunks go, unless a chunk of the family
  // is held, pinned or being written; such families count as used, and twice as many are looked at
  // next.
  bool make_room() {
    if (order_.size() + granted_.size() + quarantined_.size() + doomed_.size() < kModelSlots)
      return true;
    std::size_t left = kModelSlots;
    for (std::size_t batch = 1; left > 0; batch *= 2) {
      std::vector<std::uint64_t> victims;
      for (const Chunk& chunk : order_)
        if (!chunk.pinned && victims.size() < std::min(batch, left)) victims.push_back(chunk.key);
      if (victims.empty()) return false;
      left -= victims.size();
      if (evict_families(victims)) return true;
    }
    return false;
  }
  bool evict_families(const std::vector<std::uint64_t>& victims) {
    std::list<Chunk> claimed;
    for (const std::uint64_t key : victims) {
      if (claimed.size() >= victims.size()) break;
      const auto members = family(key);
      if (committed(key) == order_.end()) continue;
      const bool stays = writing(key / 2 * 2) || writing(key / 2 * 2 + 1) ||
                         std::any_of(members.begin(), members.end(),
                                     [](const auto& chunk) { return chunk->pinned; });
      for (const auto& chunk : members) {
        if (stays) {
          use(chunk);
        } else {
          claimed.splice(claimed.end(), order_, chunk);
        }
      }
    }
    bool any = false;
    while (!claimed.empty()) {
      const std::uint64_t family_of = claimed.front().key / 2;
      auto end = claimed.begin();
      bool is_held = false;
      for (; end != claimed.end() && end->key / 2 == family_of; ++end)
        is_held = is_held || held(end->grant);
      if (is_held) {
        order_.splice(order_.end(), claimed, claimed.begin(), end);
      } else {
        claimed.erase(claimed.begin(), end);
        any = true;
      }
    }
    return any;
  }

  void reserve() {
    const SessionNumber session = any_session();
    const std::uint64_t key = pick(kModelKeys);
    const protocol::Grant grant = box_.reserve(session, name(key));
    const bool pending = writing(key);
    if (committed(key) != order_.end()) {
      ASSERT_EQ(grant.status, status_of(GrantStatus::kPresent));
    } else if (pending) {
      ASSERT_EQ(grant.status, status_of(GrantStatus::kPending));
    } else if (!make_room()) {
      ASSERT_EQ(grant.status, status_of(GrantStatus::kNoSpace));
    } else {
      ASSERT_EQ(grant.status, status_of(GrantStatus::kGranted));
      ASSERT_GT(grant.generation, last_generation_);
      last_generation_ = grant.generation;
      for (const auto* list : {&granted_, &quarantined_})
        for (const Writing& other : *list)
          ASSERT_NE(other.grant.slot, grant.slot) << "two writers of one slot";
      for (const Chunk& chunk : order_) ASSERT_NE(chunk.grant.slot, grant.slot);
      for (const protocol::Grant& doomed : doomed_) ASSERT_NE(doomed.slot, grant.slot);
      granted_.push_back({session, key, grant});
    }
  }

  void commit() {
    if (granted_.empty()) return;
    const std::size_t i = pick(granted_.size());
    const Writing writing = granted_[i];
    const std::uint64_t root = box_.write(writing.grant, writing.key);
    if (pick(10) == 0) {  // another session tries
      box_.store().commit(writing.session + 1000,
                          {writing.grant.slot, 0, writing.grant.generation, root});
      return;
    }
    box_.store().commit(writing.session, {writing.grant.slot, 0, writing.grant.generation, root});
    granted_.erase(granted_.begin() + static_cast<long>(i));
    order_.push_back({writing.key, writing.grant, root});
  }

  void disown() {
    if (granted_.empty()) return;
    const Writing writing = granted_.front();
    box_.store().disown(writing.session, {writing.grant.slot, 0, writing.grant.generation});
    granted_.erase(granted_.begin());
  }

  void touch() {
    if (order_.empty()) return;
    const auto chunk = std::next(order_.begin(), static_cast<long>(pick(order_.size())));
    box_.store().touch(chunk->grant.slot, chunk->grant.generation);
    use(chunk);
  }

  void demote() {
    const std::uint64_t key = pick(kModelKeys) / 2 * 2;
    const protocol::BlockHash hash = name(key).hash;
    box_.store().families().demote(box_.handle(), std::span(&hash, 1));
    for (const auto& chunk : family(key))
      if (!chunk->pinned) order_.splice(order_.begin(), order_, chunk);
  }

  void pin_or_unpin() {
    const std::uint64_t key = pick(kModelKeys) / 2 * 2;
    const protocol::BlockHash hash = name(key).hash;
    const auto members = family(key);
    if (pick(2) == 0) {
      box_.store().families().unpin(box_.handle(), std::span(&hash, 1));
      for (const auto& chunk : members) {
        if (!chunk->pinned) continue;
        chunk->pinned = false;
        use(chunk);
      }
      return;
    }
    std::size_t pinned = 0;
    for (const Chunk& chunk : order_) pinned += chunk.pinned;
    for (const auto& chunk : members) pinned += !chunk->pinned;
    const protocol::ActCounts counts =
        box_.store().families().pin(box_.handle(), std::span(&hash, 1));
    ASSERT_EQ(counts.absent, members.size() != 2);
    ASSERT_EQ(counts.found, members.size() == 2 && pinned <= kModelSlots / protocol::kPinnedShare);
    if (counts.found == 0) return;
    for (const auto& chunk : members) chunk->pinned = true;
  }

  void evict() {
    const std::uint64_t key = pick(kModelKeys) / 2 * 2;
    const protocol::BlockHash hash = name(key).hash;
    box_.store().families().evict(box_.handle(), std::span(&hash, 1));
    for (const auto& chunk : family(key)) {
      doomed_.push_back(chunk->grant);
      order_.erase(chunk);
    }
    for (const Writing& writing : granted_)
      if (writing.key / 2 * 2 == key) quarantined_.push_back(writing);
    std::erase_if(granted_, [&](const Writing& writing) { return writing.key / 2 * 2 == key; });
    std::erase_if(doomed_, [&](const protocol::Grant& grant) { return !held(grant); });
  }

  void hold() {
    const SessionNumber number = any_session();
    const std::uint32_t place = static_cast<std::uint32_t>(pick(kHoldPlaces));
    protocol::Grant& mine = sessions_[number].holds[place];
    mine = order_.empty() || pick(2) == 0
               ? protocol::Grant{}
               : std::next(order_.begin(), static_cast<long>(pick(order_.size())))->grant;
    if (mine.generation == 0) {
      box_.region(number).holds[place] = 0;
    } else {
      StoreBox::hold(box_.region(number), place, mine);
    }
  }

  void bad() {
    if (order_.empty()) return;
    const auto chunk = std::next(order_.begin(), static_cast<long>(pick(order_.size())));
    box_.store().report_bad({chunk->grant.slot, 0, chunk->grant.generation});
    if (chunk->pinned)
      for (const auto& member : family(chunk->key)) {
        member->pinned = false;
        use(member);
      }
    doomed_.push_back(chunk->grant);
    order_.erase(chunk);
    while (box_.store().verify_next()) {
    }
    ASSERT_EQ(box_.stats().bad_confirmed, 0U) << "no session wrote into a slot of another";
  }

  void sweep() {
    box_.store().sweep();
    std::erase_if(doomed_, [&](const protocol::Grant& grant) { return !held(grant); });
  }

  void set_silent() {
    const SessionNumber number = any_session();
    Session& session = sessions_[number];
    session.silent = !session.silent;
    box_.store().sessions().set_silent(number, session.silent);
    if (session.silent) to_quarantine(number);
  }

  void to_quarantine(SessionNumber number) {
    for (const Writing& writing : granted_)
      if (writing.session == number) quarantined_.push_back(writing);
    std::erase_if(granted_, [&](const Writing& writing) { return writing.session == number; });
  }

  void end_session() {
    const SessionNumber number = any_session();
    to_quarantine(number);
    const bool any = std::any_of(quarantined_.begin(), quarantined_.end(),
                                 [&](const Writing& w) { return w.session == number; });
    ASSERT_EQ(box_.store().sessions().end(number), any);
    sessions_.erase(number);
    ended_.insert(number);
    add_session(next_session_++);
  }

  // A quarantined slot comes back: its session commits late, or its lock is gone.
  void release_one() {
    if (!quarantined_.empty() && !ended_.contains(quarantined_.front().session)) {
      const Writing writing = quarantined_.front();
      quarantined_.erase(quarantined_.begin());
      box_.store().commit(writing.session, {writing.grant.slot, 0, writing.grant.generation, 1});
    } else if (!ended_.empty()) {
      const SessionNumber number = *ended_.begin();
      ended_.erase(number);
      box_.store().sessions().release_quarantine(number);
      std::erase_if(quarantined_,
                    [&](const Writing& writing) { return writing.session == number; });
    }
  }

  std::mt19937_64 random_;
  StoreBox box_;
  std::list<Chunk> order_;  // coldest first
  std::vector<Writing> granted_, quarantined_;
  std::vector<protocol::Grant> doomed_;
  std::map<SessionNumber, Session> sessions_;
  std::set<SessionNumber> ended_;
  SessionNumber next_session_ = 1;
  std::uint64_t last_generation_ = 0;
};

TEST(StoreModel, RandomOperationsMatchTheReference) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Reference reference(seed);
    for (int i = 0; i < 5000; ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      reference.step();
      reference.check();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace larder::store::testing_support
