// Compares the kernels' code, lane by lane for every block and warp of a grid, with the host's
// engine. NVIDIA's compiler gets the same code.
#include "cuda/move_pieces.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/host_copy_engine.h"
#include "shim/protocol/checksum.h"

namespace larder::copy {
namespace {

struct Shape {
  std::uint64_t piece_bytes;
  std::size_t pieces;
  std::size_t misalign;  // of the pieces
};

// Pieces with gaps, and a slot filled from them by the host's engine.
class Grid {
 public:
  explicit Grid(const Shape& shape)
      : shape_(shape),
        stride_((shape.piece_bytes + 63) / 64 * 64 + 64),
        pages_(stride_ * shape.pieces + 64 + shape.misalign) {
    std::mt19937_64 random(shape.piece_bytes);
    for (std::byte& byte : pages_) byte = static_cast<std::byte>(random());
    const std::size_t start =
        64 - reinterpret_cast<std::uintptr_t>(pages_.data()) % 64 + shape.misalign;
    for (std::size_t i = 0; i < shape.pieces; ++i)
      pieces_.push_back(pages_.data() + (start % 64) + i * stride_);
    const std::uint64_t payload = shape.piece_bytes * shape.pieces;
    slot_.resize(protocol::slot_bytes(payload, shape.piece_bytes) + 4096);
    slot_start_ = 4096 - reinterpret_cast<std::uintptr_t>(slot_.data()) % 4096;
    root_ = host_copy_engine().store({pieces_, shape.piece_bytes}, slot()).value();
    digests_.resize(protocol::digest_count(payload, shape.piece_bytes));
  }

  std::span<std::byte> slot() { return std::span(slot_).subspan(slot_start_, slot_.size() - 4096); }
  std::uint64_t payload_bytes() const { return shape_.piece_bytes * shape_.pieces; }

  template <Move kMove>
  void run(unsigned char* packed, std::uint32_t blocks, const std::vector<std::byte*>& pieces) {
    std::vector<std::uint64_t> addresses;
    for (std::byte* piece : pieces) addresses.push_back(reinterpret_cast<std::uint64_t>(piece));
    const MoveJob job{addresses.data(), packed, digests_.data(), shape_.piece_bytes, shape_.pieces};
    const std::uint64_t warps = std::uint64_t{blocks} * kWarpsPerBlock;
    for (std::uint64_t number = 0; number < warps; ++number) {
      HostWarp warp;
      move_pieces<kMove>(warp, job, number, warps);
    }
  }
  bool digests_right() {
    return std::memcmp(digests_.data(),
                       slot().data() + protocol::digest_table_offset(payload_bytes()),
                       digests_.size() * sizeof(std::uint64_t)) == 0 &&
           protocol::root_digest(digests_.data(), digests_.size()) == root_;
  }
  void wipe_digests() { std::fill(digests_.begin(), digests_.end(), 0); }
  std::vector<std::byte>& pages() { return pages_; }
  std::vector<std::byte*>& pieces() { return pieces_; }
  std::vector<std::uint64_t>& digests() { return digests_; }

 private:
  const Shape shape_;
  const std::size_t stride_;
  std::vector<std::byte> pages_;
  std::vector<std::byte*> pieces_;
  std::vector<std::byte> slot_;
  std::size_t slot_start_ = 0;
  std::uint64_t root_ = 0;
  std::vector<std::uint64_t> digests_;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const std::size_t misalign : {0, 1, 8, 16})
    for (const std::uint64_t bytes :
         {1, 16, 240, 241, 1024, 2048, 3072, 4000, 4096, 4097, 5120, 8192, 8200, 18432, 32768})
      all.push_back({bytes, 5, misalign});
  all.push_back({131072, 3, 0});
  all.push_back({(131072) + 2048, 3, 0});
  all.push_back({4 << 20, 1, 0});
  return all;
}

TEST(MovePiecesTest, EveryMoveMatchesTheHostBytesAndDigests) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape.pieces << " pieces of " << shape.piece_bytes
                                    << " bytes, " << shape.misalign << " off");
    for (const std::uint32_t blocks : {1U, 3U, 8U}) {
      Grid grid(shape);
      std::vector<std::byte> out(grid.payload_bytes() + 16);
      unsigned char* const packed = reinterpret_cast<unsigned char*>(out.data()) + 16 -
                                    reinterpret_cast<std::uintptr_t>(out.data()) % 16;
      grid.run<Move::kGather>(packed, blocks, grid.pieces());
      ASSERT_EQ(std::memcmp(packed, grid.slot().data(), grid.payload_bytes()), 0);
      ASSERT_TRUE(grid.digests_right());

      grid.wipe_digests();
      grid.run<Move::kDigest>(nullptr, blocks, grid.pieces());
      ASSERT_TRUE(grid.digests_right());

      grid.wipe_digests();
      const std::vector<std::byte> before = grid.pages();
      for (std::byte* piece : grid.pieces()) std::memset(piece, 0, shape.piece_bytes);
      grid.run<Move::kScatter>(reinterpret_cast<unsigned char*>(grid.slot().data()), blocks,
                               grid.pieces());
      ASSERT_EQ(grid.pages(), before);  // including the gaps
      ASSERT_TRUE(grid.digests_right());
    }
  }
}

TEST(MovePiecesTest, NullPiecesAreSkipped) {
  Grid grid({5000, 4, 0});
  std::vector<std::byte*> pieces = grid.pieces();
  pieces[1] = pieces[3] = nullptr;
  const std::vector<std::byte> before = grid.pages();
  std::memset(grid.pieces()[0], 0, 5000);
  grid.run<Move::kScatter>(reinterpret_cast<unsigned char*>(grid.slot().data()), 2, pieces);
  EXPECT_EQ(grid.pages(), before);
  const auto* table = reinterpret_cast<const std::uint64_t*>(
      grid.slot().data() + protocol::digest_table_offset(grid.payload_bytes()));
  for (const std::size_t unit : {0, 1, 4, 5}) EXPECT_EQ(grid.digests()[unit], table[unit]) << unit;
  for (const std::size_t unit : {2, 3, 6, 7}) EXPECT_EQ(grid.digests()[unit], 0U) << unit;
}

TEST(MovePiecesTest, DamagedByteChangesOnlyTheDigestOfItsUnit) {
  Grid grid({8192, 2, 0});
  grid.slot()[4096 + 1000] ^= std::byte{1};
  grid.run<Move::kScatter>(reinterpret_cast<unsigned char*>(grid.slot().data()), 1, grid.pieces());
  const auto* table = reinterpret_cast<const std::uint64_t*>(
      grid.slot().data() + protocol::digest_table_offset(grid.payload_bytes()));
  for (const std::size_t unit : {0, 1, 2, 3})
    EXPECT_EQ(grid.digests()[unit] == table[unit], unit != 1) << unit;
}

}  // namespace
}  // namespace larder::copy
