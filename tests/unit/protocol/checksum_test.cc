#include "shim/protocol/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace larder::protocol {
namespace {

std::vector<std::byte> counting_bytes(std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i)
    bytes[i] = static_cast<std::byte>(i * 131 + (i >> 8));
  return bytes;
}

TEST(Checksum, CountsAShortLastUnit) {
  EXPECT_EQ(units_per_piece(1), 1U);
  EXPECT_EQ(units_per_piece(4096), 1U);
  EXPECT_EQ(units_per_piece(4097), 2U);
  EXPECT_EQ(digest_count(3 * 18432, 18432), 15U);  // MLA: 16 tokens of 1152 bytes, 4.5 units
}

TEST(Checksum, SlotSizeCoversPayloadAndTableInWholePages) {
  EXPECT_EQ(slot_bytes(4096, 4096), 8192U);
  EXPECT_EQ(slot_bytes(12 * 131072, 131072), 12U * 131072 + 4096);
  EXPECT_EQ(slot_bytes(7, 7), 4096U);
}

// Golden vectors, made by the Python package xxhash: a change of the checksum is a change of the
// protocol.
TEST(Checksum, GoldenVectors) {
  const std::vector<std::byte> bytes = counting_bytes(10000);
  EXPECT_EQ(unit_digest(bytes.data(), 4096), 0x1e0a232f4ec7fa9eULL);
  EXPECT_EQ(unit_digest(bytes.data(), 1), 0xc44bdff4074eecdbULL);
  std::vector<std::uint64_t> digests(units_per_piece(5000) * 2);
  piece_digests(bytes.data(), 5000, digests.data());
  piece_digests(bytes.data() + 5000, 5000, digests.data() + 2);
  EXPECT_EQ(root_digest(digests.data(), digests.size()), 0x4990a11e56748eebULL);
}

TEST(NamespaceId, IsTheHashOfTheText) {
  const NamespaceId id = namespace_id("engine: vllm\n");
  EXPECT_EQ(id.to_hex(), "258dc23d19688895675f4994de3a1b65");
  EXPECT_NE(id, namespace_id("engine: vllm"));
}

}  // namespace
}  // namespace larder::protocol
