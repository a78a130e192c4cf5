#include "tests/unit/tiering/promoter_fixture.h"

namespace larder::tiering::testing_support {
namespace {

using protocol::GrantStatus;
using store::testing_support::status_of;

class PromoterTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 32;  // of which four families may be kept
  PromoterTest() { box_.add_stranger(2); }
  // The tier answers in a millisecond, and the speed is known.
  void measure() {
    for (int i = 0; i < 4; ++i) {
      box_.promotions.tick(false);
      box_.clock.advance_ms(1);
      box_.finish_reads();
    }
  }
  // The engines' view.
  bool serving() const {
    return protocol::ResidencyReader::open(box_.below->data(), box_.below->bytes())
        ->speed()
        .serving;
  }

  PromoterBox box_{kSlots};
};

TEST_F(PromoterTest, LowerTierChunksArePromotedWithTheirBytes) {
  box_.put_below(1);
  box_.put_below(2);
  box_.fetch(7, {1, 2});
  EXPECT_EQ(box_.told(7), "nothing");
  EXPECT_EQ(box_.tier.gets(), 4U);
  box_.clock.advance_ms(3);
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "2 all");
  EXPECT_EQ(box_.answer(7)->bytes, 4 * PromoterBox::kSlotBytes);
  EXPECT_EQ(box_.answer(7)->elapsed_us, 3000U);
  for (const std::uint64_t n : {1, 2}) {
    const auto view = box_.memory.find(n);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->root, n);
    EXPECT_EQ(static_cast<std::uint64_t>(box_.memory.arena()[view->offset_bytes + 77]), n);
  }
  EXPECT_EQ(box_.memory.stats().chunks_promoted, 4U);
  EXPECT_EQ(box_.memory.stats().promoted_bytes, 4 * PromoterBox::kSlotBytes);
}

TEST_F(PromoterTest, ChunksInMemoryAreNotRead) {
  for (const protocol::Key& key : box_.family(1)) box_.memory.put(2, key);
  box_.fetch(7, {1});
  EXPECT_EQ(box_.told(7), "1 all");
  EXPECT_EQ(box_.answer(7)->bytes, 0U);
  EXPECT_EQ(box_.tier.gets(), 0U);
}

// vLLM's own cache has the head of a prompt, and the fetch begins behind it.
TEST_F(PromoterTest, FetchedTailUsesItsWholeHead) {
  constexpr std::uint64_t kHead = 1, kTail = 2, kLast = kSlots / 2;  // a family has two slots
  const auto touch = [&](std::uint64_t family) {
    for (const protocol::Key& key : box_.family(family)) {
      const auto chunk = box_.memory.store().find(key);
      box_.memory.store().touch(chunk->slot, chunk->generation);
    }
  };
  for (std::uint64_t n = kHead; n <= kLast; ++n)
    for (const protocol::Key& key : box_.family(n)) {
      const protocol::BlockHash parent =
          n == kTail ? box_.memory.key(kHead).hash : protocol::BlockHash{};
      protocol::Grant grant{};
      box_.memory.store().reserve(2, key, std::span(&key.hash, 1), std::span(&grant, 1),
                                  std::span(&parent, 1));
      box_.memory.store().commit(2, {grant.slot, 0, grant.generation, n});
    }
  // The last message before the fetch uses the head, and then all other chunks.
  box_.memory.store().begin_uses();
  for (const std::uint64_t n : {kHead, kTail}) touch(n);
  for (std::uint64_t n = kTail + 1; n <= kLast; ++n) touch(n);
  box_.fetch(7, {kTail});
  box_.promotions.end(1, 7);
  box_.grants(2);
  EXPECT_TRUE(box_.in_memory(kHead) && box_.in_memory(kTail));
  EXPECT_FALSE(box_.in_memory(kTail + 1)) << "the coldest";
}

TEST_F(PromoterTest, MissingHalfOfAFamilyIsRead) {
  box_.put_below(1);
  box_.memory.put(2, box_.memory.key(1));
  box_.fetch(7, {1});
  EXPECT_EQ(box_.tier.gets(), 1U);
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 all");
  EXPECT_TRUE(box_.in_memory(1));
}

// A tier knows a namespace by its text, which another member may have opened with another layout.
TEST_F(PromoterTest, ChunkOfAnotherLayoutIsAbsent) {
  box_.put_below(1);
  const protocol::Key key = box_.memory.key(2);
  for (const protocol::Key& one : box_.family(2))
    box_.tier.store(box_.chunk(one), {2, 2048, 2048, 2},
                    std::vector<std::byte>(PromoterBox::kSlotBytes));
  box_.fetch(7, {1, 2});
  EXPECT_EQ(box_.tier.gets(), 2U) << "it is not read";
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 absent");
  EXPECT_EQ(box_.memory.reserve(2, key).status, 0U) << "and is in nobody's way";
}

// The session has closed the namespace, and its place is another's: the fetch ends, and no chunk
// comes up under the new one.
TEST_F(PromoterTest, FetchOfReleasedNamespaceEnds) {
  box_.put_below(1);
  box_.put_below(2);
  store::Store& store = box_.memory.store();
  store.join_namespace(box_.memory.handle());
  box_.fetch(7, {1, 2});
  ASSERT_EQ(box_.tier.gets(), 4U);
  store.leave_namespace(box_.memory.handle());
  store::Drop drop{box_.memory.handle(), true};
  store.drop(drop);
  ASSERT_FALSE(store.namespaces().is_open(box_.memory.handle()));
  const std::uint32_t next = box_.memory.open("field: b\n");
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "0 absent");
  for (const std::uint64_t n : {1, 2}) {
    protocol::Key key = box_.memory.key(n);
    EXPECT_FALSE(box_.memory.has(key));
    key.namespace_handle = next;
    EXPECT_FALSE(box_.memory.has(key));
  }
}

// covers F-152
TEST_F(PromoterTest, PrefixEndsAtAMissingChunk) {
  box_.put_below(1);
  box_.put_below(3);
  box_.fetch(7, {1, 2, 3});
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 absent");
  EXPECT_FALSE(box_.in_memory(3)) << "read for nobody";
  box_.fetch(8, {2, 1});
  EXPECT_EQ(box_.told(8), "0 absent");
  box_.fetch(9, {});
  EXPECT_EQ(box_.told(9), "0 all");
}

TEST_F(PromoterTest, ChunkBeingStoredIsNotAwaited) {
  box_.put_below(1);
  ASSERT_EQ(box_.memory.reserve(2, box_.memory.key(1)).status, status_of(GrantStatus::kGranted));
  box_.fetch(7, {1});
  EXPECT_EQ(box_.told(7), "0 absent");
}

TEST_F(PromoterTest, StoreDuringPromotionIsPending) {
  box_.put_below(1);
  box_.fetch(7, {1});
  EXPECT_EQ(box_.memory.reserve(2, 1).status, status_of(GrantStatus::kPending));
  box_.finish_reads();
  EXPECT_EQ(box_.memory.reserve(2, 1).status, status_of(GrantStatus::kPresent));
}

// A silent device costs the read alone: the computed chunk can be stored instead.
TEST_F(PromoterTest, ChunkOfAStuckReadCanBeStoredInAnotherSlot) {
  box_.put_below(1);
  box_.fetch(7, {1});
  box_.tier.finish_one({Code::kDeadlineExceeded, ""}, true);
  box_.turn();
  const protocol::Grant grant = box_.memory.put(2, 1);
  ASSERT_EQ(grant.status, status_of(GrantStatus::kGranted));
  box_.tier.release();
  box_.finish_reads();
  const auto seen = box_.memory.find(1);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->slot, grant.slot);
  EXPECT_EQ(box_.memory.arena()[seen->offset_bytes], std::byte{1}) << "the device wrote into it";
}

TEST_F(PromoterTest, ChunksWithPendingDropAreNotRead) {
  box_.put_below(1);
  box_.put_below(2);
  bool dropping = true;
  box_.source.set_hidden([&](const protocol::NamespaceId& id) {
    return dropping && id == box_.chunk(box_.memory.key(1)).namespace_id;
  });
  box_.fetch(7, {1});
  EXPECT_EQ(box_.told(7), "0 absent");
  EXPECT_EQ(
      box_.promotions.prefetch(box_.memory.handle(), std::vector{box_.memory.key(1).hash}).absent,
      1U);
  dropping = false;
  EXPECT_EQ(
      box_.promotions.prefetch(box_.memory.handle(), std::vector{box_.memory.key(2).hash}).found,
      1U);
  dropping = true;  // before its read began
  box_.turn();
  EXPECT_EQ(box_.tier.gets(), 0U);
  EXPECT_FALSE(box_.in_memory(2));
}

// covers F-146
TEST_F(PromoterTest, DeadlineReturnsTheReadPrefixAndLaterReadsAreStored) {
  box_.put_below(1);
  box_.put_below(2);
  box_.fetch(7, {1, 2}, 20);
  box_.tier.finish_one();
  box_.tier.finish_one();
  box_.clock.advance_ms(19);
  box_.turn();
  EXPECT_EQ(box_.told(7), "nothing");
  EXPECT_EQ(box_.promotions.next_deadline_ns(), box_.clock.now_ns() + 1'000'000);
  box_.clock.advance_ms(1);
  box_.turn();
  EXPECT_EQ(box_.told(7), "1 late");
  EXPECT_EQ(box_.promotions.next_deadline_ns(), UINT64_MAX);
  box_.finish_reads();
  EXPECT_TRUE(box_.in_memory(2));
}

TEST_F(PromoterTest, OneReadServesAllFetches) {
  box_.put_below(1);
  box_.fetch(7, {1});
  box_.fetch(7, {1}, 1000, 3);
  EXPECT_EQ(box_.tier.gets(), 2U);
  box_.promotions.end(1, 7);
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "nothing") << "it was ended";
  EXPECT_EQ(box_.told(7, 3), "1 all");
}

TEST_F(PromoterTest, FailedReadEndsThePrefixWithItsReason) {
  for (const std::uint64_t n : {1, 2, 3}) box_.put_below(n);
  box_.fetch(7, {1, 2, 3});
  box_.tier.finish_one();
  box_.tier.finish_one();
  box_.tier.finish_one({Code::kInternal, "EIO"});
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 failed");
  EXPECT_EQ(box_.memory.stats().promotions_failed, 1U);
  box_.tier.degrade();
  box_.put_below(4);
  box_.fetch(8, {4});
  EXPECT_EQ(box_.told(8), "0 failed");
}

// Both of its families wait for one read: the second was cut off by the first's failure, and then
// heard of the failure.
TEST_F(PromoterTest, ReadOfARepeatedChunkMayFail) {
  box_.put_below(1);
  box_.fetch(7, {1, 1});
  EXPECT_EQ(box_.tier.gets(), 2U);
  box_.tier.finish_one({Code::kDataLoss, ""});
  box_.turn();
  EXPECT_EQ(box_.told(7), "0 failed");
  box_.finish_reads();
  box_.fetch(8, {1, 1});
  box_.finish_reads();
  EXPECT_EQ(box_.told(8), "2 all");
  box_.promotions.end(1, 8);
  EXPECT_EQ(box_.memory.filled().kept_bytes, 0U);
}

// covers F-150, F-151
TEST_F(PromoterTest, KeptBytesAreBounded) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t n = 1; n <= 6; ++n) {
    box_.put_below(n);
    numbers.push_back(n);
  }
  box_.fetch(7, numbers);
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "3 bound") << "a quarter of the arena, less a sixteenth of that";
  box_.fetch(8, {5});
  EXPECT_EQ(box_.told(8), "0 bound") << "of all its fetches together";
  box_.fetch(8, numbers, 1000, 3);
  box_.finish_reads();
  EXPECT_EQ(box_.told(8, 3), "1 bound") << "for others there is room left";
  box_.fetch(8, numbers, 1000, 4);
  EXPECT_EQ(box_.told(8, 4), "0 bound") << "of all sessions together";
  box_.promotions.end(1, 7);
  box_.fetch(9, {5});
  box_.finish_reads();
  EXPECT_EQ(box_.told(9), "1 all");
}

// covers F-151
TEST_F(PromoterTest, KeptBytesOfASessionDependOnOtherSessions) {
  PromoterBox box(64);  // of which eight families may be kept
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t n = 1; n <= 16; ++n) {
    box.put_below(n);
    numbers.push_back(n);
  }
  box.fetch(1, {1, 2, 3, 4}, 1000, 3);
  box.finish_reads();
  EXPECT_EQ(box.told(1, 3), "4 all");
  box.fetch(1, numbers);
  box.finish_reads();
  EXPECT_EQ(box.told(1), "3 bound") << "of the four that are left";
  box.promotions.end_session(3);
  box.fetch(2, numbers);
  box.finish_reads();
  EXPECT_EQ(box.told(2), "4 bound") << "seven in all";
  box.promotions.end_session(1);
  EXPECT_EQ(box.memory.filled().kept_bytes, 0U);
}

TEST_F(PromoterTest, FetchesOfASessionAreBounded) {
  PromoterBox box(1024);
  box.put_below(1);
  for (std::uint32_t i = 0; i < protocol::kMaxFetches; ++i) box.fetch(i, {1});
  box.fetch(protocol::kMaxFetches, {1});
  EXPECT_EQ(box.told(protocol::kMaxFetches), "0 bound");
  box.fetch(1, {1}, 1000, 4);
  EXPECT_EQ(box.told(1, 4), "nothing") << "under way, for another session";
  box.promotions.end(1, 0);
  box.fetch(1000, {1});
  EXPECT_EQ(box.told(1000), "nothing");
  const protocol::Fetch asked{box.memory.handle(), 1, 0, 0};
  EXPECT_EQ(box.promotions.fetch(4, 1, asked, {}).code(), Code::kInvalidArgument)
      << "it runs already";
  box.finish_reads();
  EXPECT_EQ(box.told(1000), "1 all");
}

// covers F-150
TEST_F(PromoterTest, MissingSpaceIsReported) {
  box_.put_below(1);
  EXPECT_EQ(box_.grants(kSlots), kSlots);  // all being written
  box_.fetch(7, {1});
  EXPECT_EQ(box_.told(7), "0 no room");
}

TEST_F(PromoterTest, FetchEndedBeforeItsReadsStartsNone) {
  box_.put_below(1);
  const std::vector<protocol::BlockHash> hashes{box_.memory.key(1).hash};
  ASSERT_TRUE(box_.promotions.fetch(1, 7, {box_.memory.handle(), 1000, 1, 0}, hashes).ok());
  box_.promotions.end(1, 7);
  box_.turn();
  EXPECT_EQ(box_.tier.gets(), 0U);
  EXPECT_EQ(box_.told(7), "nothing");
  EXPECT_EQ(box_.promotions.next_deadline_ns(), UINT64_MAX);
}

TEST_F(PromoterTest, EndedSessionKeepsNoChunk) {
  box_.put_below(1);
  box_.put_below(2);
  box_.fetch(7, {1});
  box_.finish_reads();
  box_.fetch(8, {2});
  EXPECT_EQ(box_.grants(kSlots), kSlots - 4);
  box_.promotions.end_session(1);
  box_.finish_reads();
  EXPECT_EQ(box_.memory.filled().kept_bytes, 0U);
  EXPECT_EQ(box_.grants(kSlots), 4U);
}

TEST_F(PromoterTest, UnendedFetchIsReleasedByAge) {
  box_.put_below(1);
  box_.fetch(7, {1});
  box_.finish_reads();
  box_.clock.advance_ms(protocol::kMaxHoldAgeMs);
  box_.promotions.tick(true);  // no watcher: the chunk is young
  box_.clock.advance_ms(protocol::kMaxHoldAgeMs);
  box_.promotions.tick(false);
  EXPECT_EQ(box_.memory.filled().kept_bytes, 2 * PromoterBox::kSlotBytes);
  box_.clock.advance_ms(1);
  box_.promotions.tick(false);
  EXPECT_EQ(box_.memory.filled().kept_bytes, 0U);
}

TEST_F(PromoterTest, PrefetchPromotesWithoutKeeping) {
  box_.put_below(1);
  for (const protocol::Key& key : box_.family(2)) box_.memory.put(2, key);
  const std::vector<protocol::BlockHash> hashes{box_.memory.key(1).hash, box_.memory.key(2).hash,
                                                box_.memory.key(3).hash};
  protocol::ActCounts counts;
  counts += box_.promotions.prefetch(box_.memory.handle(), hashes);
  EXPECT_EQ(counts.found, 2U) << "there, or on its way";
  EXPECT_EQ(counts.absent, 1U);
  box_.turn();
  EXPECT_EQ(box_.tier.gets(), 2U);
  box_.fetch(7, {1});
  EXPECT_EQ(box_.tier.gets(), 2U) << "a waiting fetch waits for that read";
  box_.finish_reads();
  EXPECT_EQ(box_.told(7), "1 all");
  box_.promotions.end(1, 7);
  EXPECT_EQ(box_.memory.filled().kept_bytes, 0U);
  EXPECT_EQ(box_.grants(kSlots), kSlots);
}

TEST_F(PromoterTest, PrefetchPromotesAtMostHalfOfTheArena) {
  std::vector<protocol::BlockHash> hashes;
  for (std::uint64_t n = 1; n <= 12; ++n) {
    box_.put_below(n);
    hashes.push_back(box_.memory.key(n).hash);
  }
  const protocol::ActCounts counts = box_.promotions.prefetch(box_.memory.handle(), hashes);
  EXPECT_EQ(counts.found, 8U);
  EXPECT_EQ(counts.refused, 4U);
}

// A fast tier goes silent: engines see this after the first deadline, and the return after a probe.
// covers F-146
TEST_F(PromoterTest, StalledTierServesNoFetchUntilFastAgain) {
  box_.put_below(1);
  box_.put_below(2);
  measure();
  EXPECT_TRUE(serving());
  box_.fetch(7, {1}, 50);
  box_.clock.advance_ms(50);
  box_.turn();
  EXPECT_EQ(box_.told(7), "0 late");
  EXPECT_FALSE(serving());
  box_.finish_reads();
  EXPECT_FALSE(serving()) << "one late read is no sign of health";
  box_.clock.advance_ms(TierSpeed::kFirstProbeMs);
  box_.promotions.tick(false);
  ASSERT_EQ(box_.tier.waiting().size(), 1U);
  box_.clock.advance_ms(1);
  box_.finish_reads();
  EXPECT_TRUE(serving());
}

// On a busy machine the engine's own clock ends a fetch before the loop has looked at its deadline.
TEST_F(PromoterTest, FetchEndedAfterItsDeadlineCountsAsLate) {
  box_.put_below(1);
  measure();
  box_.fetch(7, {1}, 50);
  box_.clock.advance_ms(60);
  box_.promotions.end(1, 7);
  EXPECT_FALSE(serving());
}

// ... and a fetch that the engine ended in time says no word about the tier.
TEST_F(PromoterTest, FetchEndedInTimeIsNotLate) {
  box_.put_below(1);
  measure();
  box_.fetch(7, {1}, 50);
  box_.clock.advance_ms(40);
  box_.promotions.end(1, 7);
  box_.promotions.tick(false);
  EXPECT_TRUE(serving());
}

}  // namespace
}  // namespace larder::tiering::testing_support
