// The parts of the plug-in tier without a socket: packets, records, the region.
#include <gtest/gtest.h>

#include <array>

#include "sidecar/tiers/plugin/layouts.h"
#include "sidecar/tiers/plugin/record.h"
#include "sidecar/tiers/plugin/region.h"
#include "tests/unit/tiers/plugin/fake_plugin.h"

namespace larder::plugin::testing_support {
namespace {

const tiers::ChunkKey kKey{{0x11, 0x22}, {0x33, 0x44}, 5, 6};

TEST(PluginRecordTest, KeyIsTextOfFixedLength) {
  EXPECT_EQ(object_key("larder", kKey),
            "larder:1:00000000000000220000000000000011:"
            "0000000000000044000000000000003300050006");
  EXPECT_EQ(namespace_prefix("a.b", kKey.namespace_id), "a.b:1:00000000000000220000000000000011:");
}

TEST(PluginRecordTest, EachChangedBitIsDetected) {
  std::array<std::byte, kRecordBytes> record{};
  const tiers::ChunkFacts facts{7, 65536, 16384, 99};
  encode_record({kKey, facts}, record);
  const std::uint64_t object = kRecordBytes + facts.slot_bytes();
  ASSERT_EQ(decode_record(kKey, record, object).value_or(tiers::ChunkFacts{}), facts);
  EXPECT_FALSE(decode_record(kKey, record, object - 1));
  EXPECT_FALSE(decode_record({{0x11, 0x22}, {0x33, 0x44}, 5, 7}, record, object));
  for (std::size_t bit = 0; bit < 8 * kRecordBytes; ++bit) {
    std::array<std::byte, kRecordBytes> changed = record;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(decode_record(kKey, changed, object)) << bit;
  }
}

TEST(BounceRegionTest, PiecesNeverOverlapAndAreMergedWhenFreed) {
  Result<BounceRegion> region = BounceRegion::create(1 << 20);
  ASSERT_TRUE(region.ok());
  std::vector<Piece> pieces;
  while (const std::optional<Piece> piece = region->take(3 * 4096 - 100)) pieces.push_back(*piece);
  EXPECT_EQ(pieces.size(), 85U);
  for (const Piece& piece : pieces)
    std::ranges::fill(region->at(piece), static_cast<std::byte>(piece.offset >> 12));
  for (const Piece& piece : pieces)
    for (const std::byte byte : region->at(piece))
      ASSERT_EQ(byte, static_cast<std::byte>(piece.offset >> 12));
  for (std::size_t i = 0; i < pieces.size(); i += 2) region->give_back(pieces[i]);
  EXPECT_FALSE(region->take(5 * 4096)) << "no run of five pages";
  for (std::size_t i = 1; i < pieces.size(); i += 2) region->give_back(pieces[i]);
  EXPECT_TRUE(region->take(1 << 20));
}

TEST(PluginWireTest, MalformedPacketsAreRefusedWithAReason) {
  const std::string done(24, '\0'), word(8, '\0');
  EXPECT_TRUE(decode(packet_of(Kind::kDone, 1, 0, done)).ok());
  EXPECT_TRUE(decode(packet_of(Kind::kFound, 2, 9, word + std::string("\0\1", 2))).ok());
  const std::vector<std::string> wrong{
      "",
      "short",
      packet_of(Kind::kDone, 0, 0, ""),
      packet_of(Kind::kDone, 2, 0, done),
      packet_of(Kind::kDone, 1, 0, done + "x"),
      packet_of(Kind::kDone, 1, 5, done),
      packet_of(Kind::kDone, 257, 0, std::string(257 * 24, '\0')),
      packet_of(Kind::kFound, 2, 9, word + std::string("\0\2", 2)),
      packet_of(Kind::kFound, 1025, 9, word + std::string(1025, '\0')),
      packet_of(Kind::kState, 0, 0, std::string("\2\0\0\0\0\0\0\0\0\0", 10)),
      packet_of(Kind::kState, 0, 0, std::string("\1\1\0\0\1\0\0\0\0\0", 10)),
      packet_of(Kind::kReady, 0, 0, word),
      packet_of(Kind::kHello, 0, 0, ""),
      packet_of(Kind::kDone, 1, 0, done) + "more",
  };
  for (const std::string& packet : wrong) {
    const Result<Packet> packet_read = decode(packet);
    EXPECT_FALSE(packet_read.ok());
    EXPECT_TRUE(packet_read.status().text().starts_with("sent a")) << packet_read.status().text();
  }
}

TEST(PluginWireTest, AnUnknownResultIsAFailure) {
  std::string body(24, '\0');
  body[16] = 77;
  const Result<Packet> packet = decode(packet_of(Kind::kDone, 1, 0, body));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(std::get<std::vector<Done>>(*packet).at(0).outcome, Outcome::kFailed);
}

TEST(LayoutsTest, HashIsIgnored) {
  Layouts layouts;
  layouts.insert(kKey, 8192, 4096);
  tiers::ChunkKey other = kKey;
  other.hash.lo = 1000;
  EXPECT_EQ(layouts.find(other).value_or(tiers::ChunkFacts{}).payload_bytes, 8192U);
  other.group = 9;
  EXPECT_FALSE(layouts.find(other));
  layouts.insert(other, 8192, 5000);
  EXPECT_FALSE(layouts.find(other)) << "implausible";
}

TEST(LayoutsTest, FullTableForgetsAllAndIsToldAgain) {
  Layouts layouts;
  tiers::ChunkKey other = kKey;
  for (std::size_t i = 0; i < Layouts::kMost; ++i, ++other.namespace_id.lo)
    layouts.insert(other, 8192, 4096);
  EXPECT_TRUE(layouts.find(kKey));
  layouts.insert(other, 8192, 4096);
  EXPECT_FALSE(layouts.find(kKey));
  EXPECT_TRUE(layouts.find(other));
  layouts.insert(kKey, 8192, 4096);
  EXPECT_TRUE(layouts.find(kKey));
}

}  // namespace
}  // namespace larder::plugin::testing_support
