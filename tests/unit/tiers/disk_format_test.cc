// The bytes of FORMAT.md. A change here is a new format version: raise kFormatVersion and keep a
// fixture of the old one.
#include <gtest/gtest.h>

#include <cstdio>

#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/format.h"

namespace larder::disk {
namespace {

const RegionId kId{0x1122334455667788ULL, 9, 2};
const Record kRecord{{{0xa1, 0xa2}, {0xb1, 0xb2}, 3, 4}, {0xc1, 8192, 4096, 0xd1}, 5, 0x60000000};

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  char digits[3];
  for (const std::byte byte : bytes) {
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(byte));
    text += digits;
  }
  return text;
}

TEST(DiskFormatTest, GoldenRecord) {
  AlignedBytes block(kBlockBytes);
  encode_record(kId, kRecord, block.span());
  EXPECT_EQ(hex(block.span().first(104)),
            "4c445231"          // magic
            "01000000"          // version
            "8877665544332211"  // volume
            "0900000000000000"  // sequence
            "02000000"          // region
            "05000000"          // block
            "a100000000000000a200000000000000"
            "b100000000000000b200000000000000"
            "03000400"          // shard, group
            "00000060"          // written
            "c100000000000000"  // generation
            "0020000000000000"  // payload
            "0010000000000000"  // piece
            "d100000000000000");
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, block.span().data() + 104, 8);
  EXPECT_EQ(checksum, protocol::unit_digest(block.span().data(), 104));
  EXPECT_EQ(decode_record(kId, block.span()), kRecord);
}

TEST(DiskFormatTest, GoldenFooter) {
  AlignedBytes footer(2 * kBlockBytes);
  encode_footer(kId, std::vector{kRecord}, footer.span());
  EXPECT_EQ(hex(footer.span().first(72)),
            "a100000000000000a200000000000000"
            "b100000000000000b200000000000000"
            "c100000000000000"    // generation
            "d100000000000000"    // root
            "0020000000100000"    // payload, piece
            "0500000000000060"    // block, written
            "0300040000000000");  // shard, group
  EXPECT_EQ(hex(footer.span().subspan(kBlockBytes, 32)),
            "4c445431"
            "01000200"  // version, closed
            "8877665544332211"
            "0900000000000000"
            "02000000"
            "01000000");  // count
  const std::optional<Trailer> trailer =
      decode_trailer(kId.volume, kId.region, footer.span().last(kBlockBytes));
  ASSERT_TRUE(trailer && trailer->closed && trailer->id == kId);
  std::vector<Record> records;
  ASSERT_TRUE(decode_entries(*trailer, footer.span().first(kBlockBytes), records));
  EXPECT_EQ(records, std::vector{kRecord});
}

TEST(DiskFormatTest, LabelRoundTripAndGoldenHead) {
  AlignedBytes bytes(kSuperblockBytes);
  const Superblock superblock{7, 8, 1 << 22, {3, 4}, {{{1, 2}, {5, 6}}, {{9, 9}, {1, 0}}}};
  encode_superblock(superblock, bytes.span());
  EXPECT_EQ(hex(bytes.span().first(48)),
            "4c444c31"
            "01000000"
            "0700000000000000"
            "0800000000000000"
            "0000400000000000"
            "0300000000000000"
            "04000000"
            "02000000");
  Superblock read;
  ASSERT_EQ(decode_superblock(bytes.span(), read), SuperblockFault::kNone);
  EXPECT_EQ(read.drops, superblock.drops);
  EXPECT_EQ(read.all_dropped, superblock.all_dropped);
  bytes.span()[4] = std::byte{2};
  EXPECT_EQ(decode_superblock(bytes.span(), read), SuperblockFault::kOtherVersion);
}

// No flipped bit of the relevant bytes gives a valid structure.
TEST(DiskFormatTest, EveryFlippedBitIsDetected) {
  AlignedBytes record(kBlockBytes), footer(2 * kBlockBytes);
  encode_record(kId, kRecord, record.span());
  encode_footer(kId, std::vector{kRecord}, footer.span());
  for (std::size_t bit = 0; bit < 112 * 8; ++bit) {
    record.span()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_EQ(decode_record(kId, record.span()), std::nullopt) << bit;
    record.span()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  const std::optional<Trailer> trailer =
      decode_trailer(kId.volume, kId.region, footer.span().last(kBlockBytes));
  for (std::size_t bit = 0; bit < 48 * 8; ++bit) {
    footer.span()[kBlockBytes + bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(
        decode_trailer(kId.volume, kId.region, footer.span().last(kBlockBytes)).has_value())
        << bit;
    footer.span()[kBlockBytes + bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  std::vector<Record> records;
  for (std::size_t bit = 0; bit < std::size_t{kBlockBytes} * 8; bit += 7) {
    footer.span()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(decode_entries(*trailer, footer.span().first(kBlockBytes), records)) << bit;
    footer.span()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST(DiskFormatTest, OtherSequencePlaceOrVolumeIsRefused) {
  AlignedBytes record(kBlockBytes);
  encode_record(kId, kRecord, record.span());
  for (const RegionId& other :
       {RegionId{kId.volume + 1, 9, 2}, RegionId{kId.volume, 8, 2}, RegionId{kId.volume, 9, 3}})
    EXPECT_EQ(decode_record(other, record.span()), std::nullopt);
}

TEST(DiskFormatTest, DropCoversEarlierAppends) {
  Superblock superblock;
  superblock.drops.push_back({{0xa1, 0xa2}, {9, 6}});
  EXPECT_TRUE(superblock.dropped(kRecord, 8) && superblock.dropped(kRecord, 9));
  EXPECT_FALSE(superblock.dropped(kRecord, 10));
  Record later = kRecord;
  later.block = 6;
  EXPECT_FALSE(superblock.dropped(later, 9));
  Record other = kRecord;
  other.key.namespace_id.lo = 0;
  EXPECT_FALSE(superblock.dropped(other, 1));
  superblock.all_dropped = {10, 0};
  EXPECT_TRUE(superblock.dropped(other, 9) && superblock.dropped(later, 9));
}

}  // namespace
}  // namespace larder::disk
