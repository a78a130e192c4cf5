#include "shim/protocol/codec.h"

#include <gtest/gtest.h>

namespace larder::protocol {
namespace {

std::vector<std::byte> bytes_of(std::span<const std::byte> packet) {
  return {packet.begin(), packet.end()};
}

TEST(Codec, RoundTripOfReserve) {
  const std::vector<BlockHash> hashes{{1, 2}, {3, 4}};
  Encoder encoder(MessageType::kReserve, 7);
  encoder.append(Reserve{5, 1, 0, 2, 0}).append_all(std::span(hashes));
  const auto packet = bytes_of(encoder.packet());
  ASSERT_EQ(packet.size(), 16U + 16U + 32U);

  Result<Decoder> decoder = Decoder::open(packet);
  ASSERT_TRUE(decoder.ok());
  EXPECT_EQ(decoder->type(), MessageType::kReserve);
  EXPECT_EQ(decoder->request(), 7U);
  Reserve reserve{};
  ASSERT_TRUE(decoder->read(reserve));
  EXPECT_EQ(reserve.namespace_handle, 5U);
  std::vector<BlockHash> read;
  ASSERT_TRUE(decoder->read_all(reserve.count, kMaxKeysPerReserve, read));
  EXPECT_EQ(read, hashes);
}

// A larderd of 1.8 reads the chunks, and ignores the count and the list of parents.
TEST(Codec, ReserveParentsFollowItsChunks) {
  const std::vector<BlockHash> hashes{{1, 2}, {3, 4}}, parents{{}, {1, 2}};
  Encoder encoder(MessageType::kReserve, 7);
  encoder.append(Reserve{5, 1, 0, 2, 2})
      .append_all(std::span(hashes))
      .append_all(std::span(parents));
  const auto packet = bytes_of(encoder.packet());
  ASSERT_EQ(packet.size(), 16U + 16U + 32U + 32U);

  Result<Decoder> decoder = Decoder::open(packet);
  ASSERT_TRUE(decoder.ok());
  Reserve reserve{};
  ASSERT_TRUE(decoder->read(reserve));
  EXPECT_EQ(reserve.parents, 2U);
  std::vector<BlockHash> read;
  ASSERT_TRUE(decoder->read_all(reserve.count, kMaxKeysPerReserve, read));
  EXPECT_EQ(read, hashes);
  ASSERT_TRUE(decoder->read_all(reserve.parents, kMaxKeysPerReserve, read));
  EXPECT_EQ(read, parents);
  EXPECT_FALSE(decoder->read_all(1, kMaxKeysPerReserve, read)) << "behind the parents is nothing";
}

TEST(Codec, EveryTruncationIsRefused) {
  const std::vector<BlockHash> hashes(3);
  Encoder encoder(MessageType::kReserve, 1);
  encoder.append(Reserve{0, 0, 0, 3, 0}).append_all(std::span(hashes));
  const auto packet = bytes_of(encoder.packet());
  for (std::size_t size = 0; size < packet.size(); ++size)
    EXPECT_FALSE(Decoder::open(std::span(packet).first(size)).ok()) << size;
}

TEST(Codec, CountOverThePacketOrLimitIsRefused) {
  Encoder encoder(MessageType::kReserve, 1);
  encoder.append(Reserve{0, 0, 0, 0xffffffff, 0});
  const auto packet = bytes_of(encoder.packet());
  Result<Decoder> decoder = Decoder::open(packet);
  Reserve reserve{};
  ASSERT_TRUE(decoder->read(reserve));
  std::vector<BlockHash> hashes;
  EXPECT_FALSE(decoder->read_all(reserve.count, kMaxKeysPerReserve, hashes));
  EXPECT_FALSE(decoder->read_all(1, kMaxKeysPerReserve, hashes));
}

TEST(Codec, TailOfNewerMinorVersionIsIgnored) {
  Encoder encoder(MessageType::kDropNamespace, 0);
  encoder.append(DropNamespace{9, 0}).append_text("additions of a later version");
  const auto packet = bytes_of(encoder.packet());
  Result<Decoder> decoder = Decoder::open(packet);
  ASSERT_TRUE(decoder.ok());
  DropNamespace drop{};
  ASSERT_TRUE(decoder->read(drop));
  EXPECT_EQ(drop.namespace_handle, 9U);
}

TEST(Codec, NamespaceIdsRoundTripAsHex) {
  const NamespaceId id = namespace_id("engine: a\n");
  EXPECT_EQ(NamespaceId::from_hex(id.to_hex()), id);
  for (const std::string& text : {std::string(), std::string(31, 'a'), std::string(33, 'a'),
                                  std::string(32, 'g'), std::string(32, 'A')})
    EXPECT_FALSE(NamespaceId::from_hex(text)) << text;
}

TEST(Codec, ShortTextsAreTruncatedAndEscaped) {
  EXPECT_EQ(short_text(make_short_text("a\nb\x7f")), "a\\x0ab\\x7f");
  EXPECT_EQ(short_text(make_short_text(std::string(500, 'x'))).size(), kMaxNameBytes);
  EXPECT_EQ(short_text(make_short_text("模型 größe 🙂")), "模型 größe 🙂");
  EXPECT_EQ(short_text(make_short_text("\x1b[31m\xc2\x9b\xff")), "\\x1b[31m\\xc2\\x9b\\xff");
  std::string long_name;
  for (int i = 0; i < 50; ++i) long_name += "模";
  EXPECT_EQ(short_text(make_short_text(long_name)), long_name.substr(0, kMaxNameBytes / 3 * 3))
      << "cut between characters";
  ShortText hostile = make_short_text("x");
  hostile.bytes = 0xffffffff;
  EXPECT_EQ(short_text(hostile).size(), 1 + (kMaxNameBytes - 1) / 4 * 4)
      << "zeros are four characters each";
}

}  // namespace
}  // namespace larder::protocol
