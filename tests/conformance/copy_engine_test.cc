// Every CopyEngine: stored bytes load again, the digests are those of protocol/checksum.h, and
// every corruption is found.
#include "cuda/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>

#include "shim/protocol/checksum.h"
#include "tests/conformance/copy_engine_under_test.h"
#include "tests/long_form.h"

namespace larder::copy::testing_support {
namespace {

std::byte expected_byte(std::uint64_t seed, std::uint64_t at) {
  return static_cast<std::byte>(((seed + at / 8) * 0x9e3779b97f4a7c15ULL) >> (8 * (at % 7)));
}

// Pieces with gaps, at an odd start if asked, and a slot for the pieces.
class Chunk {
 public:
  Chunk(EngineBox& box, std::uint64_t piece_bytes, std::size_t pieces, std::size_t misalign)
      : piece_bytes_(piece_bytes),
        stride_((piece_bytes + 63 + kGap) / 64 * 64),
        page_bytes_(stride_ * pieces + 128),
        memory_(box.make_pages(page_bytes_)),
        pages_(memory_->pages()),
        payload_(piece_bytes * pieces),
        slot_bytes_(protocol::slot_bytes(payload_, piece_bytes)),
        slot_(static_cast<std::byte*>(std::aligned_alloc(4096, slot_bytes_)), &std::free) {
    wipe();
    std::memset(slot_.get(), 0, slot_bytes_);
    const auto start = reinterpret_cast<std::uintptr_t>(pages_);
    std::byte* base = pages_ + ((start + 63) / 64 * 64 - start) + misalign;
    for (std::size_t i = 0; i < pieces; ++i) pieces_.push_back(base + i * stride_);
    ready_ = box.make_ready(slot());
  }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at)
        image(pieces_[i])[at] = expected_byte(seed, i * piece_bytes_ + at);
    memory_->write();
  }
  void wipe() {
    std::memset(image(pages_), 0xee, page_bytes_);
    memory_->write();
  }
  // The bytes of a page by now, until the next call.
  const std::byte* seen(const std::byte* page) const {
    memory_->read();
    return image(page);
  }
  bool holds(std::uint64_t seed) const {
    memory_->read();
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at)
        if (image(pieces_[i])[at] != expected_byte(seed, i * piece_bytes_ + at)) return false;
    return true;
  }
  bool gaps_untouched() const {
    memory_->read();
    const auto foreign = [this](const std::byte* from, std::uint64_t bytes) {
      return static_cast<std::size_t>(
          std::count(image(from), image(from) + bytes, std::byte{0xee}));
    };
    std::size_t in_pieces = 0;
    for (std::byte* piece : pieces_) in_pieces += foreign(piece, piece_bytes_);
    return foreign(pages_, page_bytes_) - in_pieces == page_bytes_ - payload_;
  }

  PieceList list() const { return {pieces_, piece_bytes_}; }
  std::span<std::byte> slot() { return {slot_.get(), slot_bytes_}; }
  std::uint64_t payload_bytes() const { return payload_; }

 private:
  static constexpr std::uint64_t kGap = 33;
  std::byte* image(const std::byte* page) const { return memory_->image() + (page - pages_); }

  std::uint64_t piece_bytes_;
  std::uint64_t stride_;
  std::size_t page_bytes_;
  const std::unique_ptr<PageMemory> memory_;
  std::byte* const pages_;
  std::uint64_t payload_;
  std::uint64_t slot_bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> slot_;
  std::vector<std::byte*> pieces_;
  std::unique_ptr<ReadyMemory> ready_;
};

class CopyEngineTest : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    std::string why;
    box_ = GetParam().make(why);
    if (box_ == nullptr) GTEST_SKIP() << why;
  }
  const CopyEngine& engine() const { return box_->engine(); }
  std::unique_ptr<EngineBox> box_;
};

// An engine with scattered registrations registers a slot by slices of 12 KiB, with a pause of 10
// ms after each: a slot of three pieces of 4 MiB takes 10 s. `make test-long` has all these slots.
bool takes_long(const EngineKind& kind, std::uint64_t piece_bytes, std::size_t misalign) {
  if (test::long_form() || !kind.name.ends_with("_scattered")) return false;
  return piece_bytes > 2 << 20 || (piece_bytes == 2 << 20 && misalign != 1);
}

TEST_P(CopyEngineTest, DigestsMatchTheProtocol) {
  for (const std::uint64_t piece_bytes : {1, 7, 64, 240, 241, 2048, 4095, 4096, 4097, 8192, 16384,
                                          18432, 32768, 65536, 131072, 2 << 20, 4 << 20}) {
    for (const std::size_t misalign : {0, 1, 8, 16, 32}) {
      if (takes_long(GetParam(), piece_bytes, misalign)) continue;
      Chunk chunk(*box_, piece_bytes, 3, misalign);
      chunk.fill(piece_bytes);
      const std::uint64_t root = engine().store(chunk.list(), chunk.slot()).value();

      std::vector<std::uint64_t> expected(
          protocol::digest_count(chunk.payload_bytes(), piece_bytes));
      for (std::size_t i = 0; i < 3; ++i)
        protocol::piece_digests(chunk.seen(chunk.list().pieces[i]), piece_bytes,
                                expected.data() + i * protocol::units_per_piece(piece_bytes));
      EXPECT_EQ(root, protocol::root_digest(expected.data(), expected.size()))
          << piece_bytes << " at " << misalign;
      EXPECT_EQ(
          std::memcmp(chunk.slot().data() + protocol::digest_table_offset(chunk.payload_bytes()),
                      expected.data(), expected.size() * sizeof(std::uint64_t)),
          0)
          << piece_bytes << " at " << misalign;

      chunk.wipe();
      ASSERT_TRUE(engine().load(chunk.slot(), root, chunk.list()).ok())
          << piece_bytes << " at " << misalign;
      EXPECT_TRUE(chunk.holds(piece_bytes)) << piece_bytes << " at " << misalign;
      EXPECT_TRUE(chunk.gaps_untouched()) << piece_bytes << " at " << misalign;
    }
  }
}

// covers F-042
TEST_P(CopyEngineTest, EveryCorruptionIsDataLoss) {
  for (const std::uint64_t piece_bytes : {7, 4096, 18432}) {
    Chunk chunk(*box_, piece_bytes, 4, 0);
    chunk.fill(5);
    const std::uint64_t root = engine().store(chunk.list(), chunk.slot()).value();
    const std::uint64_t table = protocol::digest_table_offset(chunk.payload_bytes());
    const std::uint64_t end =
        table + 8 * protocol::digest_count(chunk.payload_bytes(), piece_bytes);
    for (std::uint64_t at = 0; at < end;
         at += at < chunk.payload_bytes() ? std::min<std::uint64_t>(piece_bytes, 1021) : 1) {
      if (at >= chunk.payload_bytes() && at < table) continue;  // padding between payload and table
      chunk.slot()[at] ^= std::byte{0x10};
      EXPECT_EQ(engine().load(chunk.slot(), root, chunk.list()).code(), Code::kDataLoss)
          << "byte " << at << " of " << piece_bytes;
      chunk.slot()[at] ^= std::byte{0x10};
    }
    for (int bit = 0; bit < 64; ++bit)
      EXPECT_EQ(engine().load(chunk.slot(), root ^ (1ULL << bit), chunk.list()).code(),
                Code::kDataLoss)
          << "bit " << bit;
    EXPECT_TRUE(engine().load(chunk.slot(), root, chunk.list()).ok());
  }
}

TEST_P(CopyEngineTest, SwappedUnitsAreDataLoss) {
  Chunk chunk(*box_, 8192, 2, 0);
  chunk.fill(9);
  const std::uint64_t root = engine().store(chunk.list(), chunk.slot()).value();
  std::swap_ranges(chunk.slot().data(), chunk.slot().data() + 4096, chunk.slot().data() + 4096);
  EXPECT_EQ(engine().load(chunk.slot(), root, chunk.list()).code(), Code::kDataLoss);
}

TEST_P(CopyEngineTest, TooSmallSlotIsRefused) {
  Chunk chunk(*box_, 4096, 2, 0);
  EXPECT_EQ(engine().load(chunk.slot().first(8192), 0, chunk.list()).code(),
            Code::kInvalidArgument);
}

TEST_P(CopyEngineTest, LoadSkipsNullPieces) {
  constexpr std::uint64_t kPiece = 5000;
  Chunk chunk(*box_, kPiece, 4, 0);
  chunk.fill(7);
  const std::uint64_t root = engine().store(chunk.list(), chunk.slot()).value();
  chunk.wipe();
  std::vector<std::byte*> pieces(chunk.list().pieces.begin(), chunk.list().pieces.end());
  const std::vector<std::byte*> all = pieces;
  pieces[0] = pieces[2] = nullptr;
  ASSERT_TRUE(engine().load(chunk.slot(), root, {pieces, kPiece}).ok());
  const std::byte* const found[] = {chunk.seen(all[0]), chunk.seen(all[1]), chunk.seen(all[2]),
                                    chunk.seen(all[3])};
  for (std::uint64_t at = 0; at < kPiece; ++at) {
    ASSERT_EQ(found[0][at], std::byte{0xee});
    ASSERT_EQ(found[1][at], expected_byte(7, kPiece + at));
    ASSERT_EQ(found[2][at], std::byte{0xee});
    ASSERT_EQ(found[3][at], expected_byte(7, 3 * kPiece + at));
  }
}

// The second half of two chunks in one call, as a layer's part of each is loaded.
TEST_P(CopyEngineTest, PartsOfChunksAreLoadedAndVerifiedByThemselves) {
  for (const std::uint64_t piece_bytes : {1000, 4096, 18432}) {
    SCOPED_TRACE(piece_bytes);
    const std::uint64_t units = protocol::units_per_piece(piece_bytes);
    std::vector<std::unique_ptr<Chunk>> chunks;
    std::vector<std::vector<std::uint64_t>> digests;
    std::vector<std::vector<std::byte*>> pieces;
    for (const std::uint64_t seed : {3, 4}) {
      Chunk& chunk = *chunks.emplace_back(std::make_unique<Chunk>(*box_, piece_bytes, 4, 0));
      chunk.fill(seed);
      const std::uint64_t root = engine().store(chunk.list(), chunk.slot()).value();
      digests.emplace_back(4 * units);
      ASSERT_TRUE(verified_digests(chunk.slot(), chunk.payload_bytes(), root, digests.back()).ok());
      EXPECT_EQ(
          verified_digests(chunk.slot(), chunk.payload_bytes(), root ^ 1, digests.back()).code(),
          Code::kDataLoss);
      pieces.emplace_back(chunk.list().pieces.begin(), chunk.list().pieces.end());
      chunk.wipe();
    }
    const std::byte* const left_out = pieces[1][3];
    pieces[1][3] = nullptr;
    const auto load = [&] {
      std::vector<ChunkPart> parts;
      for (std::size_t i = 0; i < 2; ++i)
        parts.push_back({chunks[i]->slot().subspan(2 * piece_bytes, 2 * piece_bytes),
                         std::span(pieces[i]).subspan(2, 2),
                         std::span(digests[i]).subspan(2 * units, 2 * units)});
      return engine().load_parts(parts, piece_bytes, nullptr);
    };
    chunks[0]->slot()[0] ^= std::byte{1};                    // of another part
    chunks[1]->slot()[4 * piece_bytes - 1] ^= std::byte{1};  // of the piece that is left out
    ASSERT_TRUE(load().ok());
    const std::byte* const found[] = {chunks[0]->seen(pieces[0][1]), chunks[0]->seen(pieces[0][2]),
                                      chunks[0]->seen(pieces[0][3]), chunks[1]->seen(pieces[1][2]),
                                      chunks[1]->seen(left_out)};
    for (std::uint64_t at = 0; at < piece_bytes; ++at) {
      ASSERT_EQ(found[0][at], std::byte{0xee});
      ASSERT_EQ(found[1][at], expected_byte(3, 2 * piece_bytes + at));
      ASSERT_EQ(found[2][at], expected_byte(3, 3 * piece_bytes + at));
      ASSERT_EQ(found[3][at], expected_byte(4, 2 * piece_bytes + at));
      ASSERT_EQ(found[4][at], std::byte{0xee});
    }
    for (const std::uint64_t at : {2 * piece_bytes, 3 * piece_bytes - 1, 4 * piece_bytes - 1}) {
      chunks[0]->slot()[at] ^= std::byte{8};
      EXPECT_EQ(load().code(), Code::kDataLoss) << at;
      chunks[0]->slot()[at] ^= std::byte{8};
    }
    digests[1][2 * units] ^= 1;
    EXPECT_EQ(load().code(), Code::kDataLoss);
  }
}

// Like an engine that captures its decode step during loads and stores, on this thread and on
// others.
TEST_P(CopyEngineTest, AGraphIsCapturedWhileCopiesRun) {
  Chunk chunk(*box_, 8192, 4, 0);
  chunk.fill(8);
  ASSERT_TRUE(box_->begin_capture());
  const Result<std::uint64_t> root = engine().store(chunk.list(), chunk.slot());
  const std::uint64_t known = root.ok() ? *root : 0;
  const Status here = engine().load(chunk.slot(), known, chunk.list());
  const Status there = std::async(std::launch::async, [&] {
                         return engine().load(chunk.slot(), known, chunk.list());
                       }).get();
  EXPECT_TRUE(box_->end_capture());
  EXPECT_TRUE(root.ok() && here.ok() && there.ok()) << here.to_string() << there.to_string();
  chunk.wipe();
  EXPECT_TRUE(engine().load(chunk.slot(), known, chunk.list()).ok());
  EXPECT_TRUE(chunk.holds(8));
}

TEST_P(CopyEngineTest, DamagedDigestTableIsDataLoss) {
  Chunk chunk(*box_, 5000, 2, 0);
  chunk.fill(6);
  const std::uint64_t root = engine().store(chunk.list(), chunk.slot()).value();
  std::vector<std::uint64_t> digests(protocol::digest_count(chunk.payload_bytes(), 5000));
  chunk.slot()[protocol::digest_table_offset(chunk.payload_bytes()) + 9] ^= std::byte{1};
  EXPECT_EQ(verified_digests(chunk.slot(), chunk.payload_bytes(), root, digests).code(),
            Code::kDataLoss);
  EXPECT_EQ(
      verified_digests(chunk.slot().first(10000), chunk.payload_bytes(), root, digests).code(),
      Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Engines, CopyEngineTest, testing::ValuesIn(engine_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace larder::copy::testing_support
