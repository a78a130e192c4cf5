#include <gtest/gtest.h>

#include "sidecar/net/receive_window.h"
#include "sidecar/tiers/key_text.h"
#include "sidecar/tiers/remote/format.h"

namespace larder::remote {
namespace {

const tiers::ChunkKey kKey{{0x1112131415161718, 0x2122232425262728},
                           {0x3132333435363738, 0x4142434445464748},
                           0x5152,
                           0x6162};

Record record() {
  return {kKey, {7, 4 << 20, 64 << 10, 0xabcdef, 0x6a210f0e}, kPartBytes, 0x123456789abcdef0};
}

std::string hex(std::string_view bytes) {
  std::string text;
  char two[3];
  for (const char c : bytes) {
    std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned char>(c));
    text += two;
  }
  return text;
}

TEST(RemoteFormatTest, GoldenRecordBytes) {
  const std::string bytes = encode_record(record());
  ASSERT_EQ(bytes.size(), kRecordBytes);
  EXPECT_EQ(hex(bytes.substr(0, 104)),
            "4c52523102000000"
            "18171615141312112827262524232221"
            "38373635343332314847464544434241"
            "5251626100f01f00"
            "0700000000000000"
            "0000400000000000"
            "0000010000000000"
            "efcdab0000000000"
            "f0debc9a78563412"
            "0020400000000000"
            "030000000e0f216a");
  EXPECT_EQ(decode_record(kKey, bytes), record());
  EXPECT_EQ(decode_record(kKey, bytes)->facts.since_s, 0x6a210f0eU)
      << "which is no part of its identity";
}

TEST(RemoteFormatTest, KeysContainNamespaceHashAndGeneration) {
  const std::string ns = "21222324252627281112131415161718";
  EXPECT_EQ(record_key("pool", kKey), "pool:2:" + ns + ":4142434445464748313233343536373851526162");
  EXPECT_EQ(part_key("pool", record(), 2), record_key("pool", kKey) + ":123456789abcdef0:2");
  EXPECT_EQ(namespace_pattern("pool", kKey.namespace_id), "pool:2:" + ns + ":*");
  EXPECT_EQ(prefix_pattern("pool"), "pool:*");
  EXPECT_TRUE(is_record_key("pool", record_key("pool", kKey)));
  for (const std::string& other :
       {part_key("pool", record(), 0), record_key("po", kKey), std::string("pool:probe")})
    EXPECT_FALSE(is_record_key("pool", other)) << other;
  EXPECT_EQ(part_key("pool", record(), 0).find('{'), std::string::npos)
      << "no hash tag: parts spread over a Cluster";
}

TEST(RemoteFormatTest, AnyChangedBitInvalidatesTheRecord) {
  const std::string good = encode_record(record());
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_FALSE(decode_record(kKey, bad).has_value()) << at;
    }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_record(kKey, good.substr(0, size)).has_value());
  EXPECT_FALSE(decode_record(kKey, good + "x").has_value());
  tiers::ChunkKey other = kKey;
  other.group ^= 1;
  EXPECT_FALSE(decode_record(other, good).has_value());
  Record odd = record();
  odd.part_bytes = kLeastPartBytes - 1;
  EXPECT_FALSE(decode_record(kKey, encode_record(odd)).has_value());
  odd = record();
  odd.part_bytes = kMostPartBytes + 1;
  EXPECT_FALSE(decode_record(kKey, encode_record(odd)).has_value());
  odd = record();
  odd.facts.payload_bytes = protocol::kMaxPayloadBytes * 2;
  EXPECT_FALSE(decode_record(kKey, encode_record(odd)).has_value());
  odd = record();
  odd.writing = 0;
  EXPECT_FALSE(decode_record(kKey, encode_record(odd)).has_value());
}

TEST(RemoteFormatTest, PartsCoverTheSlot) {
  for (const std::uint64_t pieces : {1, 31, 32, 33, 64, 500}) {
    Record one = record();
    one.facts.payload_bytes = pieces << 16;
    std::size_t at = 0;
    for (std::uint32_t number = 0; number < one.parts(); ++number) {
      EXPECT_EQ(one.part_offset(number), at);
      EXPECT_GT(one.part_size(number), 0U);
      EXPECT_LE(one.part_size(number), kPartBytes);
      at += one.part_size(number);
    }
    EXPECT_EQ(at, one.facts.slot_bytes());
  }
}

TEST(RemoteFormatTest, PrefixContainsNoScanPatternCharacters) {
  EXPECT_TRUE(tiers::valid_prefix("larder") && tiers::valid_prefix("pool-1_a.B"));
  for (const char* wrong : {"", "a:b", "a*", "a?", "[a]", "a b", "a\n", "{a}", "\\"})
    EXPECT_FALSE(tiers::valid_prefix(wrong)) << wrong;
  EXPECT_TRUE(tiers::valid_prefix(std::string(127, 'a')));
  EXPECT_FALSE(tiers::valid_prefix(std::string(128, 'a')));
}

// Found by bench-remote: of chunks of 4 and 8 MiB one part alone was on its way most of the time.
TEST(RemoteFormatTest, ShortLastPartLeavesWindowForALongOne) {
  net::ReceiveWindow window;
  window.round_trip(1000);
  for (const std::uint64_t mib : {2, 4, 8, 16, 32}) {
    Record record;
    record.facts.payload_bytes = mib << 20;
    record.facts.piece_bytes = 128 << 10;
    const std::uint64_t last = record.part_size(record.parts() - 1);
    EXPECT_TRUE(window.lets(last + kPartBytes, kPartBytes)) << mib;
    EXPECT_FALSE(window.lets(2 * kPartBytes, kPartBytes)) << mib;
  }
}

}  // namespace
}  // namespace larder::remote
