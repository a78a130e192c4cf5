// A warm restart: a second life over the arena and the index of a first one.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "tests/unit/store/recording_listener.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::SlotState;

constexpr std::uint64_t kRestoredSlots = 16, kSlotBytes = StoreBox::kSlotBytes;
constexpr SessionNumber kNew = 9;

// One life: an index of its own over an arena that all share.
struct Life {
  Life(std::byte* arena, std::uint64_t first_generation, std::uint64_t tier = 0)
      : shape{kRestoredSlots * 2,
              IndexShape::buckets_for(kRestoredSlots * 2),
              kRestoredSlots * kSlotBytes,
              first_generation,
              first_generation,
              tier},
        index(zeroed_pages(shape.bytes())),
        region(zeroed_pages(sizeof(protocol::SessionRegion))),
        store(shape, index.get(), arena, stats),
        reader(*protocol::IndexReader::open(index.get(), shape.bytes())) {
    store.set_touched_bytes(shape.arena_bytes);
  }
  protocol::SessionRegion& add_session(SessionNumber number) {
    auto& memory = *reinterpret_cast<protocol::SessionRegion*>(region.get());
    store.sessions().add(number, memory);
    return memory;
  }
  std::uint32_t open(const NamespaceSpec& spec) {
    std::string difference;
    return *store.open_namespace(spec, &difference);
  }
  protocol::Grant reserve(SessionNumber session, const protocol::Key& key) {
    protocol::Grant grant{};
    store.reserve(session, key, std::span(&key.hash, 1), std::span(&grant, 1));
    return grant;
  }
  protocol::Grant put(SessionNumber session, const protocol::Key& key) {
    const protocol::Grant grant = reserve(session, key);
    if (grant.status == 0)
      store.commit(session, {grant.slot, 0, grant.generation, key.hash.lo ^ 7});
    return grant;
  }
  void clear() {
    Drop all;
    while (!all.done) store.drop(all);
  }
  stats::Stats filled() {
    stats::Stats copy = stats;
    store.fill(copy);
    return copy;
  }
  // The words of an entry in memory.
  protocol::IndexEntry& entry(std::uint32_t slot) {
    return reinterpret_cast<protocol::IndexEntry*>(index.get() +
                                                   sizeof(protocol::IndexHeader))[slot];
  }
  PreviousIndex as_earlier() { return *PreviousIndex::open(index.get(), shape.bytes()); }
  protocol::IndexHeader& header() { return *reinterpret_cast<protocol::IndexHeader*>(index.get()); }

  IndexShape shape;
  Memory index, region;
  stats::Stats stats;
  Store store;
  protocol::IndexReader reader;
};

NamespaceSpec one_shard(const std::string& text, std::uint64_t piece_bytes = 4096) {
  NamespaceSpec spec = make_spec(text, piece_bytes);
  spec.shard_count = 1;
  return spec;
}

class Restore : public testing::Test {
 protected:
  Restore() {
    first_.add_session(kWriter);
    // no chunk is stored there: the other one's handle is not the same in both lives
    first_.open(names_[1].spec);
    handle_ = first_.open(names_[0].spec);
    small_ = first_.open(names_[2].spec);
  }
  protocol::Key key(std::uint64_t n, std::uint32_t handle) const {
    return {{n * 0x9e3779b97f4a7c15ULL, n + 1}, handle, 0, 0};
  }
  protocol::Key key(std::uint64_t n) const { return key(n, handle_); }
  Store::Restored restore(std::vector<SessionNumber> alive = {}) {
    second_.emplace(arena_.get(), 5000);
    return second_->store.restore(first_.as_earlier(), names_, alive);
  }
  // The same key in the second life.
  protocol::Key again(std::uint64_t n) { return key(n, second_->open(names_[0].spec)); }
  bool kept(std::uint64_t n) { return second_->reader.find(again(n)).has_value(); }

  const std::vector<EarlierName> names_{
      {one_shard("a\n")}, {one_shard("b\n")}, {one_shard("c\n", 512)}};
  Memory arena_ = zeroed_pages(kRestoredSlots * kSlotBytes);
  Life first_{arena_.get(), 1000};
  std::uint32_t handle_ = 0, small_ = 0;
  std::optional<Life> second_;
};

class RestoredPrompts : public Restore {
 protected:
  // Two prompts; the first was stored in two steps, the second between.
  RestoredPrompts() {
    for (std::uint64_t n = 1; n <= 6; ++n) store(n, n - 1);
    for (std::uint64_t n = 20; n < 26; ++n) store(n, n == 20 ? 0 : n - 1);
    for (std::uint64_t n = 7; n <= 10; ++n) store(n, n - 1);
  }
  void store(std::uint64_t n, std::uint64_t parent) {
    const protocol::Key wanted = key(n);
    const protocol::BlockHash above = parent == 0 ? protocol::BlockHash{} : key(parent).hash;
    protocol::Grant grant{};
    first_.store.reserve(kWriter, wanted, std::span(&wanted.hash, 1), std::span(&grant, 1),
                         std::span(&above, 1));
    first_.store.commit(kWriter, {grant.slot, 0, grant.generation, 1});
  }
  std::uint32_t& link(std::uint32_t slot) {
    return reinterpret_cast<std::uint32_t*>(first_.index.get() +
                                            first_.header().parents_offset)[slot];
  }
  std::uint32_t slot_of(std::uint64_t n) { return first_.reader.find(key(n))->slot; }
};

TEST_F(RestoredPrompts, AreEvictedTailFirstAfterRestart) {
  restore();
  second_->store.end_recovery_grace();
  second_->add_session(kNew);
  for (std::uint64_t n = 100; n < 108; ++n)
    ASSERT_EQ(second_->put(kNew, again(n)).status, status_of(protocol::GrantStatus::kGranted));
  for (std::uint64_t n = 20; n < 26; ++n) EXPECT_FALSE(kept(n)) << n << ": used longest ago";
  for (std::uint64_t n = 1; n <= 10; ++n) EXPECT_EQ(kept(n), n <= 8) << n;
}

// An index of protocol 1.8 ends before the links, and its header has zeros there.
TEST_F(RestoredPrompts, FromAnIndexWithoutLinksAreIndependent) {
  first_.header().parents_offset = 0;
  first_.header().version_minor = 8;
  const std::uint64_t bytes =
      protocol::index_sizes(kRestoredSlots * 2, IndexShape::buckets_for(kRestoredSlots * 2))
          .total_bytes;
  second_.emplace(arena_.get(), 5000);
  const Result<PreviousIndex> earlier = PreviousIndex::open(first_.index.get(), bytes);
  ASSERT_TRUE(earlier.ok()) << earlier.status().to_string();
  EXPECT_EQ(second_->store.restore(*earlier, names_, {}).kept, 16U);
  second_->store.end_recovery_grace();
  second_->add_session(kNew);
  for (std::uint64_t n = 100; n < 108; ++n)
    ASSERT_EQ(second_->put(kNew, again(n)).status, status_of(protocol::GrantStatus::kGranted));
  for (std::uint64_t n = 1; n <= 10; ++n) EXPECT_EQ(kept(n), n > 6) << n << ": granted first";
}

// A larderd cannot trust the file: each link may name any slot.
TEST_F(RestoredPrompts, FromADamagedIndexAreKeptAndWalksEnd) {
  link(slot_of(1)) = slot_of(10) + 1;  // a circle
  link(slot_of(2)) = slot_of(2) + 1;   // itself
  link(slot_of(3)) = 0xffffffff;
  link(slot_of(4)) = kRestoredSlots * 2 + 7;  // behind the table
  link(slot_of(5)) = kRestoredSlots * 2;      // a number that no chunk has
  link(slot_of(6)) = slot_of(25) + 1;         // a later one
  link(slot_of(21)) = slot_of(6) + 1;         // an older one of another prompt
  EXPECT_EQ(restore().kept, 16U);
  second_->store.end_recovery_grace();
  second_->add_session(kNew);
  for (int round = 0; round < 3; ++round) {
    second_->store.begin_uses();
    for (std::uint64_t n = 1; n <= 10; ++n) {
      const auto view = second_->reader.find(again(n));
      second_->store.touch(view->slot, view->generation);
    }
  }
  for (std::uint64_t n = 100; n < 106; ++n)
    ASSERT_EQ(second_->put(kNew, again(n)).status, status_of(protocol::GrantStatus::kGranted));
  for (std::uint64_t n = 1; n <= 10; ++n) EXPECT_TRUE(kept(n)) << n << ": used last";
  second_->clear();
  second_->store.sweep();
  EXPECT_EQ(second_->filled().unused_bytes, kRestoredSlots * kSlotBytes);
}

TEST_F(Restore, KeepsCommittedChunksWithSlotAndGeneration) {
  std::map<std::uint64_t, protocol::Grant> stored;
  for (std::uint64_t n = 0; n < 8; ++n) stored[n] = first_.put(kWriter, key(n));
  first_.put(kWriter, key(1, small_));
  const Store::Restored restored = restore();
  EXPECT_EQ(restored.kept, 9U);
  EXPECT_EQ(restored.dropped, 0U);
  EXPECT_EQ(restored.names, (std::vector<std::pair<std::size_t, std::uint32_t>>{{0, 0}, {2, 1}}))
      << "no chunk stands under the other one";
  for (const auto& [n, grant] : stored) {
    const auto view = second_->reader.find(again(n));
    ASSERT_TRUE(view) << n;
    EXPECT_EQ(view->slot, grant.slot);
    EXPECT_EQ(view->generation, grant.generation);
    EXPECT_EQ(view->offset_bytes, grant.offset_bytes);
    EXPECT_EQ(view->root, key(n).hash.lo ^ 7);
    EXPECT_EQ(view->record, protocol::record_checksum(*view)) << "a load would refuse it";
  }
  const stats::Stats stats = second_->filled(), before = first_.filled();
  EXPECT_EQ(stats.slots_committed, 9U);
  EXPECT_EQ(stats.used_bytes, before.used_bytes);
}

TEST_F(Restore, GenerationsExceedAllPreviousOnes) {
  const protocol::Grant old = first_.put(kWriter, key(1));
  restore();
  second_->store.end_recovery_grace();
  second_->add_session(kNew);
  EXPECT_GT(second_->reserve(kNew, again(2)).generation, old.generation);
}

TEST_F(Restore, LivingSessionsGrantsAreQuarantinedAndOthersFreed) {
  first_.store.sessions().add(2, *reinterpret_cast<protocol::SessionRegion*>(first_.region.get()));
  const protocol::Grant living = first_.reserve(kWriter, key(1));
  first_.reserve(2, key(2));
  const Store::Restored restored = restore({kWriter});
  EXPECT_EQ(restored.quarantined, 1U);
  EXPECT_EQ(second_->filled().slots_quarantined, 1U);
  second_->store.end_recovery_grace();
  second_->add_session(kNew);
  std::uint64_t given = 0;
  for (std::uint64_t n = 10; n < 10 + 2 * kRestoredSlots; ++n) {
    const protocol::Grant grant = second_->reserve(kNew, again(n));
    given += grant.status == 0;
    EXPECT_TRUE(grant.status != 0 || grant.offset_bytes != living.offset_bytes)
        << "its writer may still write";
  }
  EXPECT_EQ(given, kRestoredSlots - 1);
  EXPECT_EQ(second_->reserve(kNew, again(1)).status, status_of(protocol::GrantStatus::kNoSpace))
      << "the key is free, only there is no room";
  EXPECT_EQ(second_->store.sessions().succeed(kNew, kWriter, {}, true), 1U);
  EXPECT_EQ(second_->reserve(kNew, again(1)).status, 0U);
}

TEST_F(Restore, NewSessionOfTheWriterReturnsItsSlot) {
  const protocol::Grant grant = first_.reserve(kWriter, key(1));
  restore({kWriter});
  second_->add_session(kNew);
  const protocol::SlotRef ref{grant.slot, 0, grant.generation};
  EXPECT_EQ(second_->store.sessions().succeed(kNew, kWriter, std::span(&ref, 1), true), 0U);
  second_->store.commit(kNew, {grant.slot, 0, grant.generation, 1});
  EXPECT_FALSE(kept(1)) << "a commit over a restart is refused";
  EXPECT_EQ(second_->filled().slots_quarantined, 0U);
}

// A killed process's requests end when the device ends them. Its tier cannot be opened before; a
// larderd that does not open the tier cannot know.
// covers F-148
TEST_F(Restore, SlotsWithPendingTierReadsAreSetAsideUnlessTheTierIsOpen) {
  const protocol::Grant read = first_.store.promote(key(1), 4096, 4096);
  ASSERT_EQ(read.status, 0U);
  const auto set_aside = [&](std::uint64_t then, std::uint64_t now) {
    first_.header().tier = then;
    second_.emplace(arena_.get(), 5000, now);
    return second_->store.restore(first_.as_earlier(), names_, {}).own;
  };
  EXPECT_EQ(set_aside(7, 7), 0U);
  EXPECT_EQ(second_->header().tier, 7U);
  EXPECT_EQ(set_aside(0, 7), 1U) << "an older larderd did not say";
  EXPECT_EQ(set_aside(7, 8), 1U);
  EXPECT_EQ(second_->header().tier, 0U) << "it knows of two now";
  EXPECT_EQ(set_aside(7, 0), 1U);
  second_->store.end_recovery_grace();
  second_->add_session(kNew);
  std::uint64_t given = 0;
  for (std::uint64_t n = 10; n < 10 + 2 * kRestoredSlots; ++n) {
    const protocol::Grant grant = second_->reserve(kNew, again(n));
    given += grant.status == 0;
    EXPECT_TRUE(grant.status != 0 || grant.offset_bytes != read.offset_bytes);
  }
  EXPECT_EQ(given, kRestoredSlots - 1);
}

// Its time to live would begin anew.
TEST_F(Restore, PromotedChunksKeepTheirOrigin) {
  first_.put(kWriter, key(1));
  const protocol::Grant up = first_.store.promote(key(2), 4096, 4096);
  ASSERT_TRUE(first_.store.promoted({up.slot, 0, up.generation}, 2, 0, 0));
  RecordingListener listener;
  second_.emplace(arena_.get(), 5000);
  second_->store.tiers().set(0, &listener);
  second_->store.restore(first_.as_earlier(), names_, {});
  ASSERT_EQ(listener.came_up_keys.size(), 1U);
  EXPECT_EQ(listener.came_up_keys[0].hash, key(2).hash);
}

TEST_F(Restore, SlotsAreNotReusedDuringTheRecoveryGrace) {
  for (std::uint64_t n = 0; n < kRestoredSlots - 1; ++n) first_.put(kWriter, key(n));
  restore({kWriter});
  second_->add_session(kNew);
  EXPECT_EQ(second_->put(kNew, again(100)).status, 0U) << "free slots may be given";
  EXPECT_EQ(second_->put(kNew, again(101)).status, status_of(protocol::GrantStatus::kNoSpace));
  for (std::uint64_t n = 0; n < kRestoredSlots - 1; ++n) EXPECT_TRUE(kept(n));
  EXPECT_FALSE(first_.reader.dead()) << "engines still look up there";
  second_->store.end_recovery_grace();
  EXPECT_TRUE(first_.reader.dead());
  EXPECT_FALSE(first_.reader.gone()) << "the arena lives on";
  EXPECT_EQ(second_->put(kNew, again(101)).status, 0U);
  EXPECT_FALSE(kept(0)) << "the one that was stored first goes first";
  EXPECT_TRUE(kept(1));
}

TEST_F(Restore, ReannouncedHoldKeepsItsSlot) {
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < kRestoredSlots; ++n) grants.push_back(first_.put(kWriter, key(n)));
  restore({kWriter});
  StoreBox::hold(second_->add_session(kNew), 0, grants[0]);
  second_->store.end_recovery_grace();
  EXPECT_EQ(second_->put(kNew, again(100)).status, 0U);
  EXPECT_TRUE(kept(0));
  EXPECT_FALSE(kept(1));
}

TEST_F(Restore, DyingSlotsStayHiddenAndWaitForReaders) {
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < kRestoredSlots; ++n) grants.push_back(first_.put(kWriter, key(n)));
  StoreBox::hold(*reinterpret_cast<protocol::SessionRegion*>(first_.region.get()), 0, grants[3]);
  const protocol::BlockHash hash = key(3).hash;
  first_.store.families().evict(handle_, std::span(&hash, 1));
  restore({kWriter});
  EXPECT_FALSE(kept(3));
  second_->store.sweep();  // at a tick
  protocol::SessionRegion& region = second_->add_session(kNew);
  StoreBox::hold(region, 0, grants[3]);
  second_->store.end_recovery_grace();
  second_->store.sweep();
  EXPECT_EQ(second_->filled().slots_free + second_->filled().unused_bytes / kSlotBytes, 0U);
  region.holds[0] = 0;
  second_->store.sweep();
  EXPECT_EQ(second_->filled().slots_free + second_->filled().unused_bytes / kSlotBytes, 1U);
}

TEST_F(Restore, SlotsRemovedDuringTheGraceWaitForReaders) {
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < kRestoredSlots; ++n) grants.push_back(first_.put(kWriter, key(n)));
  restore({kWriter});
  const protocol::BlockHash hash = key(3).hash;
  EXPECT_EQ(
      second_->store.families().evict(second_->open(names_[0].spec), std::span(&hash, 1)).found,
      1U);
  second_->clear();
  EXPECT_EQ(second_->filled().slots_free + second_->filled().unused_bytes / kSlotBytes, 0U)
      << "a hold is still to be announced";
  protocol::SessionRegion& region = second_->add_session(kNew);
  StoreBox::hold(region, 0, grants[3]);
  second_->store.end_recovery_grace();
  second_->store.sweep();
  EXPECT_EQ(second_->filled().slots_free + second_->filled().unused_bytes / kSlotBytes,
            kRestoredSlots - 1);
}

TEST_F(Restore, DroppedChunkIsHiddenInThePreviousIndex) {
  first_.put(kWriter, key(1));
  restore({kWriter});
  EXPECT_FALSE(first_.reader.dead());
  second_->clear();
  EXPECT_TRUE(first_.reader.dead());
}

TEST_F(Restore, BadChunkIsHiddenInThePreviousIndex) {
  const protocol::Grant grant = first_.put(kWriter, key(1));
  restore({kWriter});
  EXPECT_FALSE(first_.reader.dead());
  second_->store.report_bad({grant.slot, 0, grant.generation});
  EXPECT_TRUE(first_.reader.dead());
}

// For example with an unwritten namespace: the namespace is not here, and engines that have not
// come back still find the chunk there.
TEST_F(Restore, UnrestoredSlotsAreNotReusedDuringTheRecoveryGrace) {
  const protocol::Grant lost = first_.put(kWriter, key(100, 0));
  for (std::uint64_t n = 1; n < kRestoredSlots; ++n) first_.put(kWriter, key(n));
  second_.emplace(arena_.get(), 5000);
  const std::vector<SessionNumber> alive{kWriter};
  const Store::Restored restored =
      second_->store.restore(first_.as_earlier(), std::span(names_).first(1), alive);
  EXPECT_EQ(restored.kept, kRestoredSlots - 1);
  EXPECT_EQ(restored.dropped, 1U);
  protocol::SessionRegion& region = second_->add_session(kNew);
  EXPECT_EQ(second_->reserve(kNew, again(200)).status, status_of(protocol::GrantStatus::kNoSpace));
  StoreBox::hold(region, 0, lost);
  second_->store.end_recovery_grace();
  second_->store.sweep();
  EXPECT_EQ(second_->filled().slots_free + second_->filled().unused_bytes / kSlotBytes, 0U)
      << "it is held";
  region.holds[0] = 0;
  second_->store.sweep();
  EXPECT_EQ(second_->filled().slots_free + second_->filled().unused_bytes / kSlotBytes, 1U);
}

TEST_F(Restore, UnrestoredChunksAreDroppedAndEvicted) {
  const protocol::BlockHash hash = key(1).hash;
  first_.put(kWriter, key(1));
  for (const bool dropped : {true, false}) {
    first_.header().dead = 0;
    second_.emplace(arena_.get(), 5000);
    second_->store.restore(first_.as_earlier(), {}, {});
    const std::uint32_t handle = second_->open(names_[0].spec);
    EXPECT_FALSE(first_.reader.dead());
    Drop drop{handle};
    if (dropped)
      second_->store.drop(drop);
    else
      second_->store.families().evict(handle, std::span(&hash, 1));
    EXPECT_TRUE(first_.reader.dead()) << "dropped: " << dropped;
  }
}

// Each damage costs the damaged entry.
// covers F-011
TEST_F(Restore, DamagedEntriesAreDropped) {
  const auto nothing = [](protocol::IndexEntry&) {};
  const auto signed_anew = [this](std::uint32_t slot) {
    protocol::IndexEntry& entry = first_.entry(slot);
    entry.record = protocol::record_checksum(first_.as_earlier().read(slot).view);
  };
  struct Damage {
    const char* what;
    std::function<void(protocol::IndexEntry&)> make;
    bool sign;  // the record checksum is made to match
  };
  const std::vector<Damage> damages{
      {"nothing", nothing, true},
      {"another hash", [](auto& e) { e.hash_lo ^= 1; }, false},
      {"another record", [](auto& e) { e.record ^= 1ULL << 40; }, false},
      {"another root", [](auto& e) { e.root ^= 1; }, false},
      {"outside the arena", [](auto& e) { e.place = protocol::pack_halves(0x7fffffff, 4096); },
       true},
      {"half outside",
       [](auto& e) { e.place = protocol::pack_halves(kRestoredSlots * 2 - 1, 4096); }, true},
      {"on top of an older one",
       [](auto& e) { e.place = protocol::pack_halves(protocol::low_half(e.place) - 1, 4096); },
       true},
      {"of another size",
       [](auto& e) { e.place = protocol::pack_halves(protocol::low_half(e.place), 2048); }, true},
      {"of other pieces", [](auto& e) { e.origin = protocol::pack_halves(kWriter, 2048); }, true},
      {"of no pieces", [](auto& e) { e.origin = protocol::pack_halves(kWriter, 0); }, true},
      {"of an unknown namespace", [](auto& e) { e.scope = 1023; }, true},
      {"of a namespace beyond the table", [](auto& e) { e.scope = 0xfffffff0; }, true},
      {"of a shard that there is not", [](auto& e) { e.scope |= 5ULL << 32; }, true},
      {"of a group that there is not", [](auto& e) { e.scope |= 5ULL << 48; }, true},
      {"of the future",
       [](auto& e) { e.word = protocol::make_word(SlotState::kCommitted, 1ULL << 50); }, true},
      {"of no generation", [](auto& e) { e.word = protocol::make_word(SlotState::kCommitted, 0); },
       true},
      {"of no state", [](auto& e) { e.word |= 7; }, true},
  };
  std::vector<protocol::Grant> grants;
  for (std::uint64_t n = 0; n < 4; ++n) grants.push_back(first_.put(kWriter, key(n)));
  const std::uint32_t slot = grants[1].slot;
  std::array<std::uint64_t, 8> good{};
  for (std::size_t i = 0; i < good.size(); ++i) good[i] = (&first_.entry(slot).word)[i];
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    damage.make(first_.entry(slot));
    if (damage.sign) signed_anew(slot);
    const bool whole = std::string(damage.what) == "nothing";
    EXPECT_EQ(restore().kept, whole ? 4U : 3U);
    EXPECT_EQ(kept(1), whole);
    EXPECT_TRUE(kept(0) && kept(3));
    for (std::size_t i = 0; i < good.size(); ++i) (&first_.entry(slot).word)[i] = good[i];
  }
}

// An index of random bytes: in any case the kept part is sound, and the store goes on.
// covers F-011
TEST_F(Restore, RandomDamageLeavesAConsistentStore) {
  std::mt19937_64 random(7);
  for (std::uint64_t n = 0; n < kRestoredSlots; ++n) first_.put(kWriter, key(n));
  const std::size_t words = first_.shape.bytes() / 8;
  std::vector<std::uint64_t> good(words);
  auto* memory = reinterpret_cast<std::uint64_t*>(first_.index.get());
  std::copy_n(memory, words, good.begin());
  const std::size_t entries = sizeof(protocol::IndexHeader) / 8,
                    entry_words = kRestoredSlots * 2 * 8;
  for (int round = 0; round < 3000; ++round) {
    for (int i = 0; i < 6; ++i) {
      const std::size_t at =
          random() % 8 == 0 ? random() % words : entries + random() % entry_words;
      const std::uint64_t from = memory[entries + random() % entry_words];
      memory[at] = random() % 3 == 0 ? from : memory[at] ^ (1ULL << random() % 64);
      const auto slot = static_cast<std::uint32_t>(random() % (kRestoredSlots * 2));
      if (random() % 2 == 0) {  // a liar that can compute a checksum
        protocol::EntryView view;
        const Result<PreviousIndex> earlier =
            PreviousIndex::open(first_.index.get(), first_.shape.bytes());
        if (earlier.ok() && earlier->entry_count() == kRestoredSlots * 2)
          first_.entry(slot).record = protocol::record_checksum(earlier->read(slot).view);
      }
    }
    const Result<PreviousIndex> earlier =
        PreviousIndex::open(first_.index.get(), first_.shape.bytes());
    if (earlier.ok()) {
      second_.emplace(arena_.get(), 5000);
      const std::vector<SessionNumber> alive{kWriter, 77};
      const Store::Restored restored = second_->store.restore(*earlier, names_, alive);
      EXPECT_LE(restored.kept, kRestoredSlots * 2);
      second_->store.end_recovery_grace();
      second_->add_session(kNew);
      const std::uint32_t handle = second_->open(names_[0].spec);
      for (std::uint64_t n = 200; n < 200 + kRestoredSlots; ++n) second_->put(kNew, key(n, handle));
      second_->store.sessions().release_quarantine(kWriter);
      second_->store.sessions().release_quarantine(77);
      second_->clear();
      second_->store.sweep();
      const stats::Stats stats = second_->filled();
      ASSERT_EQ(stats.unused_bytes, kRestoredSlots * kSlotBytes) << "round " << round;
      ASSERT_EQ(stats.used_bytes, 0U);
    }
    std::copy(good.begin(), good.end(), memory);
  }
}

TEST(PreviousIndexTest, UnreadableIndexIsReportedWithAReason) {
  Memory arena = zeroed_pages(kRestoredSlots * kSlotBytes);
  Life life(arena.get(), 1000);
  const auto why = [&] {
    return PreviousIndex::open(life.index.get(), life.shape.bytes()).status();
  };
  EXPECT_TRUE(why().ok());
  life.header().version_major = 9;
  EXPECT_EQ(why().code(), Code::kUnsupported);
  EXPECT_NE(why().text().find("version 9."), std::string::npos) << why().text();
  life.header().version_major = 1;
  life.header().restart_format = 99;
  EXPECT_EQ(why().code(), Code::kUnsupported);
  life.header().restart_format = 0;
  EXPECT_EQ(why().code(), Code::kFailedPrecondition);
  life.header().restart_format = protocol::kRestartFormat;
  life.header().entry_count = 1ULL << 40;
  EXPECT_EQ(why().code(), Code::kDataLoss);
  life.header().entry_count = kRestoredSlots * 2;
  life.header().dead = 2;
  EXPECT_EQ(why().code(), Code::kNotFound);
}

}  // namespace
}  // namespace larder::store::testing_support
