// Damage to the file between two lives: a miss each time, never other bytes, never a crash, and the
// size stays.
#include <gtest/gtest.h>

#include <random>

#include "sidecar/tiers/disk/device.h"
#include "tests/unit/tiers/disk_world.h"

namespace larder::disk::testing_support {
namespace {

constexpr std::uint64_t kChunks = 14;  // four regions closed, one open
constexpr std::uint64_t kRegionBlocks = kRegionBytes / kBlockBytes;

class DiskDamageTest : public DiskWorld {
 protected:
  void SetUp() override { fill_up(); }

  void fill_up() {
    std::filesystem::remove_all(options_.path + "/larder");
    ASSERT_TRUE(open().ok());
    for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_TRUE(loop_->put(i, 1 + i, 1).ok());
    close();
  }
  // The number of found chunks with bytes that verify; wrong ones that the engine would have to
  // find are counted apart.
  struct Found {
    std::uint64_t right = 0, caught_by_engine = 0;
  };
  Found probe() {
    Found found;
    for (std::uint64_t i = 0; i < kChunks; ++i) {
      Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
      const tiers::Ticket ticket = loop_->next();
      if (!tier_->get(ticket, key_of(i), slot.span(), loop_->in_ms(20'000)).ok()) continue;
      const std::optional<tiers::Message> done = loop_->done(ticket);
      EXPECT_TRUE(done.has_value());
      if (!done || !done->status.ok()) continue;
      EXPECT_EQ(done->facts.generation, 1 + i);
      EXPECT_EQ(done->facts.payload_bytes, kPayloadBytes);
      Slot expected(slot.span().size());
      EXPECT_EQ(fill(expected.span(), i, 1 + i), done->facts) << "the root tells the right bytes";
      ++(holds(slot.span(), i, done->facts) ? found.right : found.caught_by_engine);
    }
    return found;
  }
};

// covers F-138
TEST_F(DiskDamageTest, UndamagedFileLosesNothing) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(probe().right, kChunks);
}

// covers F-138
TEST_F(DiskDamageTest, ABrokenHeaderCostsItsChunk) {
  damage(offset_of(0, 0) + 40, 1, 0x10);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(0).code(), Code::kDataLoss);
  EXPECT_EQ(loop_->get(0).code(), Code::kNotFound) << "it is not tried again";
  EXPECT_EQ(tier_->counters().records_corrupt, 1U);
  EXPECT_EQ(probe().right, kChunks - 1);
}

// covers F-138
TEST_F(DiskDamageTest, BrokenFooterIsReplacedByAScanOfTheRegion) {
  damage(offset_of(0, kRegionBlocks - 2) + 8, 1, 0x01);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(probe().right, kChunks);
}

// covers F-138
TEST_F(DiskDamageTest, ABrokenTrailerCostsItsRegion) {
  damage(offset_of(0, kRegionBlocks - 1) + 8, 1, 0x01);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(probe().right, kChunks - kChunksARegion);
}

// covers F-138
TEST_F(DiskDamageTest, OneBrokenLabelCostsNoChunkAndBothCostAll) {
  damage(100, 1, 0x01);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(probe().right, kChunks);
  close();
  fill_up();
  damage(100, 1, 0x01);
  damage(kSuperblockBytes + 100, 1, 0x01);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(probe().right, 0U);
  EXPECT_LE(disk_usage(), options_.size_bytes);
  ASSERT_TRUE(loop_->put(1, 2).ok());
}

// covers F-138
TEST_F(DiskDamageTest, TruncatedFileLosesTheMissingChunks) {
  for (const std::uint64_t keep :
       {kHeadBytes + 2 * kRegionBytes + 12345, kHeadBytes, 70'000UL, 1UL, 0UL}) {
    fill_up();
    std::filesystem::resize_file(file(), keep);
    ASSERT_TRUE(open().ok()) << keep;
    const Found found = probe();
    EXPECT_EQ(found.right + found.caught_by_engine, keep > kHeadBytes ? 2 * kChunksARegion : 0)
        << keep;
    EXPECT_EQ(found.caught_by_engine, 0U);
    EXPECT_LE(disk_usage(), options_.size_bytes);
    close();
  }
}

// covers F-138
TEST_F(DiskDamageTest, FileTruncatedUnderARunningTierIsAMiss) {
  ASSERT_TRUE(open().ok());
  std::filesystem::resize_file(file(), kHeadBytes);
  EXPECT_FALSE(loop_->get(1).ok());
}

// covers F-138
TEST_F(DiskDamageTest, SwappedRecordsAreMisses) {
  // Chunks 0 and 1 swap their places wholly, headers included: each header tells another block.
  std::FILE* opened = std::fopen(file().c_str(), "r+b");
  ASSERT_NE(opened, nullptr);
  const std::uint64_t bytes = kBlockBytes + protocol::slot_bytes(kPayloadBytes, kPieceBytes);
  std::vector<char> first(bytes), second(bytes);
  std::fseek(opened, static_cast<long>(offset_of(0, 0)), SEEK_SET);
  ASSERT_EQ(std::fread(first.data(), 1, bytes, opened), bytes);
  ASSERT_EQ(std::fread(second.data(), 1, bytes, opened), bytes);
  std::fseek(opened, static_cast<long>(offset_of(0, 0)), SEEK_SET);
  std::fwrite(second.data(), 1, bytes, opened);
  std::fwrite(first.data(), 1, bytes, opened);
  std::fclose(opened);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(0).code(), Code::kDataLoss);
  EXPECT_EQ(loop_->get(1).code(), Code::kDataLoss);
}

// A region without a footer counts only if every byte matches its root.
// covers F-137, F-138
TEST_F(DiskDamageTest, ATornTailOfAnOpenRegionIsNotFound) {
  for (const std::uint64_t at : {40UL, 4096UL + 100, kPayloadBytes, kPayloadBytes + 4096 + 16}) {
    fill_up();
    // The last footer is undone, as if the process had been killed before the write; chunk 13 is
    // its region's second.
    AlignedBytes trailer(kBlockBytes);
    std::FILE* opened = std::fopen(file().c_str(), "r+b");
    ASSERT_NE(opened, nullptr);
    std::uint64_t region = 0, newest = 0, volume = 0;
    std::fseek(opened, 8, SEEK_SET);
    ASSERT_EQ(std::fread(&volume, 8, 1, opened), 1U);
    for (std::uint64_t i = 0; i < 8; ++i) {
      std::fseek(opened, static_cast<long>(offset_of(i, kRegionBlocks - 1)), SEEK_SET);
      ASSERT_EQ(std::fread(trailer.span().data(), 1, kBlockBytes, opened), kBlockBytes);
      const std::optional<Trailer> read =
          decode_trailer(volume, static_cast<std::uint32_t>(i), trailer.span());
      if (!read || !read->closed || read->id.sequence < newest) continue;
      newest = read->id.sequence;
      region = i;
    }
    encode_trailer({{volume, newest, static_cast<std::uint32_t>(region)}, false, 0, 0},
                   trailer.span());
    std::fseek(opened, static_cast<long>(offset_of(region, kRegionBlocks - 1)), SEEK_SET);
    std::fwrite(trailer.span().data(), 1, kBlockBytes, opened);
    std::fclose(opened);
    const std::uint64_t blocks = 1 + protocol::slot_bytes(kPayloadBytes, kPieceBytes) / kBlockBytes;
    damage(offset_of(region, blocks) + at, 1, 0x80);
    ASSERT_TRUE(open().ok());
    EXPECT_FALSE(tier_->probe(key_of(13)).has_value()) << at;
    const Found found = probe();
    EXPECT_EQ(found.right, kChunks - 1) << at;
    EXPECT_EQ(found.caught_by_engine, 0U) << at;
  }
}

// A damaged record still tells the place of the next one, however large the record was.
// covers F-138
TEST_F(DiskDamageTest, ForgottenRecordHidesNoLaterRecord) {
  std::filesystem::remove_all(options_.path + "/larder");
  options_.region_bytes = 32 << 20;
  options_.size_bytes = 140 << 20;
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(loop_->put(1, 1, 1, 18 << 20).ok() && loop_->put(2).ok());
  tier_->forget(key_of(1), 1);
  ASSERT_TRUE(loop_->flush().ok());
  // As after a kill: no footer is written.
  ASSERT_TRUE(
      await([&] { return tier_->counters().written_bytes > (19U << 20) + 2 * kBlockBytes; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  env_.faults.all_writes_fail = true;
  close();
  env_.faults.all_writes_fail = false;
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(loop_->get(2).ok());
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
}

// Any damage at any place: a found chunk is right, or its root shows the damage.
// covers F-138
TEST_F(DiskDamageTest, RandomDamageIsAMissOrARootMismatch) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uint64_t lost = 0, caught = 0;
  for (int round = 0; round < 12; ++round) {
    fill_up();
    for (int fault = 0; fault < 40; ++fault) {
      const std::uint64_t region = random() % 6;
      // The important places as often as any: headers, footers, trailers, labels.
      const std::uint64_t places[] = {
          random() % (kHeadBytes + 6 * kRegionBytes), offset_of(region, 0) + random() % 112,
          offset_of(region, kRegionBlocks - 2) + random() % 300,
          offset_of(region, kRegionBlocks - 1) + random() % 48, random() % 200};
      const std::uint64_t pick = random() % (fault % 8 == 0 ? 5 : 3);
      const std::uint64_t length = random() % 4 == 0 ? random() % 600 : 1;
      damage(places[pick], length, static_cast<unsigned char>(1U << random() % 8));
    }
    ASSERT_TRUE(open().ok());
    const Found found = probe();
    lost += kChunks - found.right;
    caught += found.caught_by_engine;
    EXPECT_LE(disk_usage(), options_.size_bytes);
    ASSERT_TRUE(loop_->put(1000).ok());
    EXPECT_TRUE(loop_->get(1000).ok());
    close();
  }
  std::printf("seed %llu: %llu of %llu chunks lost, %llu of them left to the engine's checksum\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(12 * kChunks),
              static_cast<unsigned long long>(caught));
  EXPECT_GT(lost, 12U);
}

}  // namespace
}  // namespace larder::disk::testing_support
