// Every CopyEngine: what it stores loads again, its digests are those of protocol/checksum.h, and no corruption goes unseen.
#include "cuda/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cuda/host_copy_engine.h"
#include "shim/protocol/checksum.h"

namespace larder::copy {
namespace {

std::byte expected_byte(std::uint64_t seed, std::uint64_t at) {
  return static_cast<std::byte>(((seed + at / 8) * 0x9e3779b97f4a7c15ULL) >> (8 * (at % 7)));
}

// Pieces with gaps between them, at an odd start if asked, and a slot for them.
class Chunk {
 public:
  Chunk(std::uint64_t piece_bytes, std::size_t pieces, std::size_t misalign)
      : piece_bytes_(piece_bytes),
        stride_((piece_bytes + 63 + kGap) / 64 * 64),
        pages_(stride_ * pieces + 128, std::byte{0xee}),
        payload_(piece_bytes * pieces),
        slot_bytes_(protocol::slot_bytes(payload_, piece_bytes)),
        slot_(static_cast<std::byte*>(std::aligned_alloc(4096, slot_bytes_)), &std::free) {
    std::memset(slot_.get(), 0, slot_bytes_);
    const auto start = reinterpret_cast<std::uintptr_t>(pages_.data());
    std::byte* base = pages_.data() + ((start + 63) / 64 * 64 - start) + misalign;
    for (std::size_t i = 0; i < pieces; ++i) pieces_.push_back(base + i * stride_);
  }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at) pieces_[i][at] = expected_byte(seed, i * piece_bytes_ + at);
  }
  void wipe() { std::fill(pages_.begin(), pages_.end(), std::byte{0xee}); }
  bool holds(std::uint64_t seed) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at)
        if (pieces_[i][at] != expected_byte(seed, i * piece_bytes_ + at)) return false;
    return true;
  }
  bool gaps_untouched() const {
    std::size_t foreign = 0;
    for (const std::byte byte : pages_) foreign += byte == std::byte{0xee} ? 1 : 0;
    std::size_t in_pieces = 0;
    for (const std::byte* piece : pieces_)
      in_pieces += static_cast<std::size_t>(std::count(piece, piece + piece_bytes_, std::byte{0xee}));
    return foreign - in_pieces == pages_.size() - payload_;
  }

  PieceList list() const { return {pieces_, piece_bytes_}; }
  std::span<std::byte> slot() { return {slot_.get(), slot_bytes_}; }
  std::uint64_t payload_bytes() const { return payload_; }

 private:
  static constexpr std::uint64_t kGap = 33;
  std::uint64_t piece_bytes_;
  std::uint64_t stride_;
  std::vector<std::byte> pages_;
  std::uint64_t payload_;
  std::uint64_t slot_bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> slot_;
  std::vector<std::byte*> pieces_;
};

class CopyEngineTest : public testing::TestWithParam<const HostLoop*> {
 protected:
  HostCopyEngine engine_{*GetParam()};
};

TEST_P(CopyEngineTest, DigestsAreThoseOfTheProtocol) {
  for (const std::uint64_t piece_bytes : {1, 7, 64, 240, 241, 2048, 4095, 4096, 4097, 8192, 18432, 32768, 131072, 2 << 20}) {
    for (const std::size_t misalign : {0, 1, 8, 16, 32}) {
      Chunk chunk(piece_bytes, 3, misalign);
      chunk.fill(piece_bytes);
      const std::uint64_t root = engine_.store(chunk.list(), chunk.slot());

      std::vector<std::uint64_t> expected(protocol::digest_count(chunk.payload_bytes(), piece_bytes));
      for (std::size_t i = 0; i < 3; ++i)
        protocol::piece_digests(chunk.list().pieces[i], piece_bytes,
                                expected.data() + i * protocol::units_per_piece(piece_bytes));
      EXPECT_EQ(root, protocol::root_digest(expected.data(), expected.size())) << piece_bytes << " at " << misalign;
      EXPECT_EQ(std::memcmp(chunk.slot().data() + protocol::digest_table_offset(chunk.payload_bytes()), expected.data(),
                            expected.size() * sizeof(std::uint64_t)),
                0)
          << piece_bytes << " at " << misalign;

      chunk.wipe();
      ASSERT_TRUE(engine_.load(chunk.slot(), root, chunk.list()).ok()) << piece_bytes << " at " << misalign;
      EXPECT_TRUE(chunk.holds(piece_bytes)) << piece_bytes << " at " << misalign;
      EXPECT_TRUE(chunk.gaps_untouched()) << piece_bytes << " at " << misalign;
    }
  }
}

TEST_P(CopyEngineTest, EveryCorruptionIsDataLoss) {
  for (const std::uint64_t piece_bytes : {7, 4096, 18432}) {
    Chunk chunk(piece_bytes, 4, 0);
    chunk.fill(5);
    const std::uint64_t root = engine_.store(chunk.list(), chunk.slot());
    const std::uint64_t table = protocol::digest_table_offset(chunk.payload_bytes());
    const std::uint64_t end = table + 8 * protocol::digest_count(chunk.payload_bytes(), piece_bytes);
    for (std::uint64_t at = 0; at < end; at += at < chunk.payload_bytes() ? std::min<std::uint64_t>(piece_bytes, 1021) : 1) {
      if (at >= chunk.payload_bytes() && at < table) continue;  // padding between payload and table
      chunk.slot()[at] ^= std::byte{0x10};
      EXPECT_EQ(engine_.load(chunk.slot(), root, chunk.list()).code(), Code::kDataLoss) << "byte " << at << " of " << piece_bytes;
      chunk.slot()[at] ^= std::byte{0x10};
    }
    for (int bit = 0; bit < 64; ++bit)
      EXPECT_EQ(engine_.load(chunk.slot(), root ^ (1ULL << bit), chunk.list()).code(), Code::kDataLoss) << "bit " << bit;
    EXPECT_TRUE(engine_.load(chunk.slot(), root, chunk.list()).ok());
  }
}

TEST_P(CopyEngineTest, SwappedUnitsAreDataLoss) {
  Chunk chunk(8192, 2, 0);
  chunk.fill(9);
  const std::uint64_t root = engine_.store(chunk.list(), chunk.slot());
  std::swap_ranges(chunk.slot().data(), chunk.slot().data() + 4096, chunk.slot().data() + 4096);
  EXPECT_EQ(engine_.load(chunk.slot(), root, chunk.list()).code(), Code::kDataLoss);
}

TEST_P(CopyEngineTest, ASlotThatIsTooSmallIsRefused) {
  Chunk chunk(4096, 2, 0);
  EXPECT_EQ(engine_.load(chunk.slot().first(8192), 0, chunk.list()).code(), Code::kInvalidArgument);
}

TEST_P(CopyEngineTest, ALoadLeavesNullPiecesOut) {
  constexpr std::uint64_t kPiece = 5000;
  Chunk chunk(kPiece, 4, 0);
  chunk.fill(7);
  const std::uint64_t root = engine_.store(chunk.list(), chunk.slot());
  chunk.wipe();
  std::vector<std::byte*> pieces(chunk.list().pieces.begin(), chunk.list().pieces.end());
  const std::vector<std::byte*> all = pieces;
  pieces[0] = pieces[2] = nullptr;
  ASSERT_TRUE(engine_.load(chunk.slot(), root, {pieces, kPiece}).ok());
  for (std::uint64_t at = 0; at < kPiece; ++at) {
    ASSERT_EQ(all[0][at], std::byte{0xee});
    ASSERT_EQ(all[1][at], expected_byte(7, kPiece + at));
    ASSERT_EQ(all[2][at], std::byte{0xee});
    ASSERT_EQ(all[3][at], expected_byte(7, 3 * kPiece + at));
  }
}

INSTANTIATE_TEST_SUITE_P(HostLoops, CopyEngineTest, testing::ValuesIn(host_loops()),
                         [](const auto& loop) { return std::string(loop.param->name); });

}  // namespace
}  // namespace larder::copy
