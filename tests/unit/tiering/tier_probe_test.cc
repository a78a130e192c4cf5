// PROBE, over a store, a disk and a backend in the hands of the test: each bound, each end, and the
// answer without a reply of the backend.
#include "sidecar/tiering/tier_probe.h"

#include <numeric>

#include "tests/unit/tiering/promoter_fixture.h"

namespace larder::tiering::testing_support {
namespace {

using store::testing_support::status_of;

class TierProbeTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 32;
  TierProbeTest() { box_.add_stranger(2); }
  void put_into_memory(std::uint64_t n) {
    for (const protocol::Key& key : box_.family(n)) box_.memory.put(2, key);
  }
  static std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to) {
    std::vector<std::uint64_t> all(to - from + 1);
    std::iota(all.begin(), all.end(), from);
    return all;
  }

  PromoterBox box_{kSlots};
};

TEST_F(TierProbeTest, MemoryAndDiskAreReportedAtOnceWithoutBackend) {
  put_into_memory(1);
  box_.put_below(2);
  box_.probe(7, {1, 2});
  EXPECT_EQ(box_.told_of_probe(7), "2 0 all");
  EXPECT_TRUE(box_.backend.probes().empty());
  EXPECT_EQ(box_.probed(7)->read_bytes_per_s, box_.source.speed().read_bytes_per_s);
  EXPECT_EQ(box_.probed(7)->read_latency_ns, box_.source.speed().read_latency_ns);
  box_.probe(8, {1});
  EXPECT_EQ(box_.told_of_probe(8), "1 0 all");
  EXPECT_EQ(box_.probed(8)->read_bytes_per_s, 0U) << "no chunk would be read";
  box_.probe(9, {});
  EXPECT_EQ(box_.told_of_probe(9), "0 0 all");
}

TEST_F(TierProbeTest, RemainingChunksAreProbedInTheBackendAtOnce) {
  put_into_memory(1);
  box_.put_below(2);
  box_.put_into_backend(3);
  box_.put_into_backend(5);
  box_.probe(7, {1, 2, 3, 4, 5});
  EXPECT_EQ(box_.told_of_probe(7), "nothing");
  ASSERT_EQ(box_.backend.probes().size(), 1U);
  std::vector<tiers::ChunkKey> asked;
  for (const std::uint64_t n : {3, 4, 5})
    for (const protocol::Key& key : box_.family(n)) asked.push_back(box_.chunk(key));
  EXPECT_EQ(box_.backend.probes().front().keys, asked) << "also about known chunks";
  box_.clock.advance_ms(2);
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "3 1 all") << "the prefix ends at a missing chunk";
  EXPECT_EQ(box_.probed(7)->elapsed_us, 2000U);
  EXPECT_EQ(box_.memory.stats().probe.total(), 1U);
  EXPECT_EQ(box_.memory.stats().probe_hits_shared, 1U);
}

TEST_F(TierProbeTest, MissingHalfOfAFamilyIsProbed) {
  box_.memory.put(2, box_.memory.key(1));
  box_.put_into_backend(1);
  box_.probe(7, {1});
  ASSERT_EQ(box_.backend.probes().size(), 1U);
  EXPECT_EQ(box_.backend.probes().front().keys, std::vector{box_.chunk(box_.memory.sibling(1))});
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "1 1 all");
}

// Two tiers of known speed: the reported speed is neither of the two.
TEST_F(TierProbeTest, TheSpeedIsThatOfTheMix) {
  box_.put_below(1);
  box_.put_into_backend(2);
  box_.put_into_backend(3);
  for (int i = 0; i < 4; ++i) {  // each probes once a tick
    box_.promotions.tick(false);
    box_.clock.advance_ms(1);
    box_.tier.finish_all();
    box_.turn();
    box_.clock.advance_ms(9);
    box_.finish_reads();
  }
  const protocol::ResidencySpeed disk = box_.source.speed(), backend = box_.backend_source.speed();
  ASSERT_GT(backend.read_latency_ns, 2 * disk.read_latency_ns);
  box_.probe(7, {1, 2, 3});
  box_.finish_probe();
  ASSERT_EQ(box_.told_of_probe(7), "3 2 all");
  EXPECT_EQ(box_.probed(7)->read_latency_ns, disk.read_latency_ns + backend.read_latency_ns);
  const double bytes = 2 * PromoterBox::kSlotBytes;
  const double seconds = bytes / static_cast<double>(disk.read_bytes_per_s) +
                         2 * bytes / static_cast<double>(backend.read_bytes_per_s);
  EXPECT_NEAR(static_cast<double>(box_.probed(7)->read_bytes_per_s), 3 * bytes / seconds, 2);
}

TEST_F(TierProbeTest, DegradedBackendLeavesMemoryAndDiskResult) {
  put_into_memory(1);
  box_.put_below(2);
  box_.put_into_backend(3);
  box_.backend.degrade();
  box_.probe(7, {1, 2, 3});
  EXPECT_EQ(box_.told_of_probe(7), "2 0 failed");
  EXPECT_GT(box_.probed(7)->read_bytes_per_s, 0U) << "the disk serves";
  EXPECT_EQ(box_.memory.stats().probes_failed, 1U);
}

TEST_F(TierProbeTest, DegradedBackendIsNotReportedIfUnneeded) {
  put_into_memory(1);
  box_.backend.degrade();
  box_.probe(7, {1});
  EXPECT_EQ(box_.told_of_probe(7), "1 0 all");
}

// An engine without stores knows of no chunk after the server's restart: no event would show that
// the server is fast again.
TEST_F(TierProbeTest, SlowBackendIsNotAwaitedAndGetsOneProbe) {
  box_.put_into_backend(1);
  for (int i = 0; i < 4; ++i) {
    box_.promotions.tick(false);
    box_.clock.advance_ms(1);
    box_.finish_reads();
  }
  box_.fetch(5, {1}, 50);
  box_.clock.advance_ms(50);
  box_.turn();
  ASSERT_EQ(box_.told(5), "0 late");
  ASSERT_FALSE(box_.backend_source.in_time());
  box_.probe(6, {1});
  EXPECT_EQ(box_.told_of_probe(6), "1 1 all") << "it is on its way";
  EXPECT_EQ(box_.probed(6)->read_bytes_per_s, 0U) << "the time of its arrival is unknown";
  box_.backend.finish_all();
  box_.turn();  // in memory now, late
  box_.probe(7, {1, 2});
  EXPECT_EQ(box_.told_of_probe(7), "1 0 failed");
  box_.probe(8, {2});
  EXPECT_EQ(box_.told_of_probe(8), "0 0 failed");
  EXPECT_EQ(box_.backend.probes().size(), 1U);
  box_.finish_probe();
  box_.probe(9, {2});
  EXPECT_EQ(box_.backend.probes().size(), 1U) << "and the next one";
}

TEST_F(TierProbeTest, FailedProbeReturnsMemoryAndDiskResult) {
  put_into_memory(1);
  box_.put_into_backend(2);
  box_.probe(7, {1, 2});
  box_.finish_probe({Code::kUnavailable, "connection lost"});
  EXPECT_EQ(box_.told_of_probe(7), "1 0 failed");
  EXPECT_EQ(box_.probed(7)->read_bytes_per_s, 0U);
}

TEST_F(TierProbeTest, ProbeIsAnsweredAtItsDeadline) {
  put_into_memory(1);
  box_.put_into_backend(2);
  EXPECT_EQ(box_.probes.next_deadline_ns(), UINT64_MAX);
  box_.probe(7, {1, 2}, 5);
  EXPECT_EQ(box_.probes.next_deadline_ns(), box_.clock.now_ns() + 5'000'000);
  box_.clock.advance_ms(4);
  box_.turn();
  EXPECT_EQ(box_.told_of_probe(7), "nothing");
  box_.clock.advance_ms(1);
  box_.turn();
  EXPECT_EQ(box_.told_of_probe(7), "1 0 late");
  EXPECT_EQ(box_.probed(7)->elapsed_us, 5000U);
  EXPECT_EQ(box_.probes.next_deadline_ns(), UINT64_MAX);
  box_.finish_probe();  // too late for anybody
  EXPECT_EQ(box_.memory.stats().probes_late, 1U);
  box_.probe(8, {1, 2}, protocol::kMaxProbeMs + 1000);
  EXPECT_EQ(box_.probes.next_deadline_ns(),
            box_.clock.now_ns() + std::uint64_t{protocol::kMaxProbeMs} * 1'000'000);
}

TEST_F(TierProbeTest, DeadlineErrorOfTheTierIsLate) {
  box_.probe(7, {1}, 5);
  box_.finish_probe({Code::kDeadlineExceeded, "the server did not answer"});
  EXPECT_EQ(box_.told_of_probe(7), "0 0 late");
}

TEST_F(TierProbeTest, ProbesOfASessionAreBounded) {
  put_into_memory(1);
  box_.put_into_backend(2);
  box_.backend.most_probes = 1000;
  for (std::uint32_t request = 1; request <= protocol::kMaxProbes; ++request)
    box_.probe(request, {1, 2});
  box_.probe(1000, {1, 2});
  EXPECT_EQ(box_.told_of_probe(1000), "1 0 bound") << "at once";
  box_.probe(1, {1, 2}, 1000, 2);
  EXPECT_EQ(box_.told_of_probe(1, 2), "nothing") << "another session's";
  for (std::uint32_t request = 1; request <= protocol::kMaxProbes; ++request) box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(1), "2 1 all");
  box_.probe(2000, {1, 2});
  box_.finish_probe();
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(2000), "2 1 all");
}

TEST_F(TierProbeTest, KeysOfAProbeAreBounded) {
  const std::uint64_t families = protocol::kMaxKeysPerProbe / 2;
  for (std::uint64_t n = 1; n <= families + 1; ++n) box_.put_into_backend(n);
  put_into_memory(2000);
  std::vector<std::uint64_t> wanted = numbers(1, families + 1);
  wanted.insert(wanted.begin(), 2000);
  box_.probe(7, wanted);
  ASSERT_EQ(box_.backend.probes().size(), 1U);
  EXPECT_EQ(box_.backend.probes().front().keys.size(), protocol::kMaxKeysPerProbe);
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7),
            std::to_string(families + 1) + " " + std::to_string(families) + " bound");
}

TEST_F(TierProbeTest, ActiveRequestNumberIsRefused) {
  box_.probe(7, {1});
  EXPECT_EQ(box_.try_probe(7, {1}, 1000, 1).code(), Code::kInvalidArgument);
  EXPECT_TRUE(box_.try_probe(7, {1}, 1000, 2).ok());
  box_.turn();
  box_.finish_probe();
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "0 0 all");
  EXPECT_TRUE(box_.try_probe(7, {}, 1000, 1).ok()) << "that one is over";
}

TEST_F(TierProbeTest, EndedSessionGetsNoAnswer) {
  box_.probe(7, {1});
  box_.probe(7, {1}, 1000, 2);
  box_.probes.end_session(1);
  box_.finish_probe();
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "nothing");
  EXPECT_EQ(box_.told_of_probe(7, 2), "0 0 all");
  EXPECT_EQ(box_.probes.next_deadline_ns(), UINT64_MAX);
}

TEST_F(TierProbeTest, ProbeWaitsForAnotherToEndInAFullBackend) {
  box_.put_into_backend(1);
  box_.backend.most_probes = 1;
  for (const std::uint32_t request : {1, 2, 3, 4})
    box_.probe(request, {1}, request == 3 ? 5 : 1000);
  EXPECT_EQ(box_.backend.probes().size(), 1U);
  box_.clock.advance_ms(5);
  box_.turn();
  EXPECT_EQ(box_.told_of_probe(3), "0 0 late") << "it was never asked";
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(1), "1 1 all");
  EXPECT_EQ(box_.backend.probes().size(), 1U);
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(2), "1 1 all");
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(4), "1 1 all") << "in the order in which they came";
  EXPECT_TRUE(box_.backend.probes().empty());
}

// The tier may have too many puts and gets: no message of a probe will come.
TEST_F(TierProbeTest, BusyBackendIsProbedAtTheNextTick) {
  box_.backend.most_probes = 0;
  box_.probe(7, {1});
  box_.backend.most_probes = 1;
  box_.probes.tick();
  EXPECT_EQ(box_.backend.probes().size(), 1U);
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "0 0 all");
}

TEST_F(TierProbeTest, ProbeEndsAtAChunkBeingStored) {
  box_.put_into_backend(1);
  box_.put_into_backend(2);
  ASSERT_EQ(box_.memory.reserve(2, box_.memory.sibling(2)).status,
            status_of(protocol::GrantStatus::kGranted));
  box_.probe(7, {1, 2, 1});
  EXPECT_EQ(box_.backend.probes().front().keys.size(), 2U) << "no part of an incomplete family";
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "1 1 all");
}

TEST_F(TierProbeTest, ChunkBeingPromotedIsPresent) {
  box_.put_into_backend(1);
  box_.fetch(5, {1});
  ASSERT_EQ(box_.backend.waiting().size(), 2U);
  box_.probe(7, {1});
  EXPECT_EQ(box_.told_of_probe(7), "1 1 all");
  EXPECT_TRUE(box_.backend.probes().empty());
  EXPECT_EQ(box_.probed(7)->read_bytes_per_s, box_.backend_source.speed().read_bytes_per_s);
}

// A tier knows a namespace by its text, and the text may have another layout. A FETCH would bring
// no such chunk: an engine that is told of one would wait in vain, in each request.
// covers F-102
TEST_F(TierProbeTest, ChunkOfAnotherLayoutIsAbsent) {
  box_.put_below(1);
  box_.put_into_backend(3);
  for (const std::uint64_t n : {2, 4})
    for (const protocol::Key& key : box_.family(n))
      (n == 2 ? box_.tier : box_.backend)
          .store(box_.chunk(key), {n, 2048, 2048, n},
                 std::vector<std::byte>(PromoterBox::kSlotBytes));
  box_.probe(7, {1, 2});
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "1 0 all");
  box_.probe(8, {1, 3, 4});
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(8), "2 1 all");
}

TEST_F(TierProbeTest, ChunksWithPendingDropAreNotProbed) {
  box_.put_into_backend(1);
  box_.backend_source.set_hidden([](const protocol::NamespaceId&) { return true; });
  box_.probe(7, {1});
  EXPECT_EQ(box_.told_of_probe(7), "0 0 all");
  EXPECT_TRUE(box_.backend.probes().empty());
}

// A stalled disk: chunks that the backend has, too, are read there.
TEST_F(TierProbeTest, ChunksOfAStalledDiskAreProbedInTheBackend) {
  box_.put_below(1);
  box_.tier.degrade();
  box_.promotions.tick(false);
  box_.probe(7, {1});
  ASSERT_EQ(box_.backend.probes().size(), 1U);
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "0 0 all");
  box_.put_into_backend(1);
  box_.probe(8, {1});
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(8), "1 1 all");
  box_.fetch(9, {1});
  EXPECT_EQ(box_.backend.waiting().size(), 2U);
  box_.finish_reads();
  EXPECT_EQ(box_.told(9), "1 all");
}

// A thousand families of an engine that holds the loop: others get their turn.
TEST_F(TierProbeTest, LargeProbeRunsInSlices) {
  store::NamespaceSpec wide = store::testing_support::make_spec("field: wide\n");
  wide.shard_count = 256;
  std::string difference;
  const std::uint32_t handle = *box_.memory.store().open_namespace(wide, &difference);
  std::vector<protocol::BlockHash> hashes;
  for (std::uint64_t n = 0; n < protocol::kMaxKeysPerProbe; ++n) hashes.push_back({n, 1});
  for (std::uint64_t n = 0; n < hashes.size(); ++n)
    for (std::uint16_t shard = 0; shard < 256; ++shard)
      if (n < 200) box_.put_into(box_.tier, *box_.below, {hashes[n], handle, shard, 0}, 1);
  ASSERT_TRUE(box_.probes.probe(1, 7, {handle, 1000, 1024, 0}, hashes).ok());
  const std::uint64_t before = box_.memory.store().effort();
  EXPECT_TRUE(box_.probes.go_on()) << "there is more of it";
  EXPECT_LE(box_.memory.store().effort() - before, store::Store::kSliceEffort + 256);
  box_.turn();
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), "200 0 bound") << "four families more were asked about";
}

using Places = std::vector<std::size_t>;

TEST_F(TierProbeTest, EachFamilyIsReportedSeparately) {
  put_into_memory(1);
  box_.put_below(3);
  box_.put_into_backend(4);
  box_.probe_each(7, {1, 2, 3, 4, 5});
  EXPECT_EQ(box_.told_of_probe(7), "nothing");
  std::vector<tiers::ChunkKey> asked;
  for (const std::uint64_t n : {5, 4, 2})
    for (const protocol::Key& key : box_.family(n)) asked.push_back(box_.chunk(key));
  ASSERT_EQ(box_.backend.probes().size(), 1U);
  EXPECT_EQ(box_.backend.probes().front().keys, asked)
      << "from the last on, behind each that is missing too";
  box_.finish_probe();
  EXPECT_EQ(box_.each(7), (Places{0, 2, 3}));
  EXPECT_EQ(box_.told_of_probe(7), "4 1 all") << "the last family, and whether the backend has it";
  EXPECT_EQ(box_.memory.stats().probe_hits, 3U);
  EXPECT_EQ(box_.memory.stats().probe_hits_shared, 1U);
  EXPECT_EQ(box_.probed(7)->read_bytes_per_s, box_.backend_source.speed().read_bytes_per_s)
      << "of that family alone";
  box_.probe(8, {1});
  EXPECT_FALSE(box_.tells_each(8)) << "an older engine gets the answer that it knows";
}

TEST_F(TierProbeTest, FiguresOfProbeEachAreOfTheLastFamily) {
  box_.put_below(1);
  put_into_memory(2);
  box_.probe_each(7, {1, 2});
  EXPECT_EQ(box_.told_of_probe(7), "2 0 all");
  EXPECT_EQ(box_.each(7), (Places{0, 1}));
  EXPECT_EQ(box_.probed(7)->read_bytes_per_s, 0U) << "it is in memory";
  box_.probe_each(8, {2, 1});
  EXPECT_EQ(box_.probed(8)->read_bytes_per_s, box_.source.speed().read_bytes_per_s);
}

TEST_F(TierProbeTest, EachPartOfAFamilyCounts) {
  box_.memory.put(2, box_.memory.key(1));
  box_.put_into(box_.backend, *box_.backend_region, box_.memory.key(2), 2);
  box_.probe_each(7, {1, 2});
  box_.finish_probe();
  EXPECT_EQ(box_.each(7), Places{}) << "the other parts are nowhere";
  EXPECT_EQ(box_.told_of_probe(7), "0 0 all");
  box_.put_into_backend(1);
  box_.probe_each(8, {1, 2});
  box_.finish_probe();
  EXPECT_EQ(box_.each(8), Places{0});
}

TEST_F(TierProbeTest, FamilyBeingStoredHidesNoOther) {
  box_.put_into_backend(1);
  ASSERT_EQ(box_.memory.reserve(2, box_.memory.sibling(2)).status,
            status_of(protocol::GrantStatus::kGranted));
  box_.probe_each(7, {1, 2, 1});
  EXPECT_EQ(box_.backend.probes().front().keys.size(), 4U) << "no part of an incomplete family";
  box_.finish_probe();
  EXPECT_EQ(box_.each(7), (Places{0, 2}));
}

TEST_F(TierProbeTest, KeyLimitOmitsTheFirstFamilies) {
  const std::uint64_t families = protocol::kMaxKeysPerProbe / 2;
  for (std::uint64_t n = 3; n <= families + 2; ++n) box_.put_into_backend(n);
  box_.probe_each(7, numbers(1, families + 2));
  ASSERT_EQ(box_.backend.probes().size(), 1U);
  EXPECT_EQ(box_.backend.probes().front().keys.size(), protocol::kMaxKeysPerProbe);
  box_.finish_probe();
  EXPECT_EQ(box_.told_of_probe(7), std::to_string(families + 2) + " 1 bound");
  const Places there = box_.each(7);
  ASSERT_EQ(there.size(), families);
  EXPECT_EQ(there.front(), 2U);
  EXPECT_EQ(there.back(), families + 1);
}

TEST_F(TierProbeTest, ProbeEachWithoutBackendReportsNearerTiers) {
  put_into_memory(1);
  box_.put_into_backend(2);
  box_.put_below(3);
  box_.put_into_backend(4);
  box_.probe_each(7, {1, 2, 3, 4}, 5);
  box_.clock.advance_ms(5);
  box_.turn();
  EXPECT_EQ(box_.told_of_probe(7), "3 0 late");
  EXPECT_EQ(box_.each(7), (Places{0, 2}));
  box_.finish_probe();  // of the question that was late
  box_.probe_each(8, {1, 2, 3, 4});
  box_.finish_probe({Code::kUnavailable, "connection lost"});
  EXPECT_EQ(box_.told_of_probe(8), "3 0 failed");
  EXPECT_EQ(box_.each(8), (Places{0, 2}));
}

TEST_F(TierProbeTest, ProbeEachOfNoFamilyIsAnswered) {
  box_.probe_each(7, {});
  EXPECT_EQ(box_.told_of_probe(7), "0 0 all");
  EXPECT_TRUE(box_.tells_each(7));
}

}  // namespace
}  // namespace larder::tiering::testing_support
