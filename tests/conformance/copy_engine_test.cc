// Every CopyEngine: what it stores loads again, its digests are those of protocol/checksum.h, and no corruption goes unseen.
#include "cuda/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cuda/cuda_copy_engine.h"
#include "cuda/host_copy_engine.h"
#include "shim/protocol/checksum.h"
#include "tests/cuda/device_chunk.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/eventually.h"

namespace larder::copy {
namespace {

std::byte expected_byte(std::uint64_t seed, std::uint64_t at) {
  return static_cast<std::byte>(((seed + at / 8) * 0x9e3779b97f4a7c15ULL) >> (8 * (at % 7)));
}

// An engine, and memory for its pages as it wants it.
struct Arm {
  std::string name;
  const HostLoop* loop = nullptr;  // of the host's engine; nullptr: CUDA's, over the fake driver
  cuda::Method method = cuda::Method::kAuto;
  bool kernels = true;
  bool pinned = true;  // the slot; else staging memory is used
};

void PrintTo(const Arm& arm, std::ostream* out) {
  *out << arm.name;
}

// Where the test finds what lies on a page.
std::byte* seen(const Arm& arm, std::byte* page) {
  return arm.loop != nullptr ? page : fake_cuda::view(page);
}

// Pieces with gaps between them, at an odd start if asked, and a slot for them.
class Chunk {
 public:
  Chunk(const Arm& arm, const CopyEngine& engine, std::uint64_t piece_bytes, std::size_t pieces, std::size_t misalign)
      : arm_(arm),
        piece_bytes_(piece_bytes),
        stride_((piece_bytes + 63 + kGap) / 64 * 64),
        page_bytes_(stride_ * pieces + 128),
        host_pages_(arm.loop != nullptr ? page_bytes_ : 0),
        pages_(arm.loop != nullptr ? host_pages_.data() : fake_cuda::allocate(page_bytes_)),
        payload_(piece_bytes * pieces),
        slot_bytes_(protocol::slot_bytes(payload_, piece_bytes)),
        slot_(static_cast<std::byte*>(std::aligned_alloc(4096, slot_bytes_)), &std::free) {
    wipe();
    std::memset(slot_.get(), 0, slot_bytes_);
    const auto start = reinterpret_cast<std::uintptr_t>(pages_);
    std::byte* base = pages_ + ((start + 63) / 64 * 64 - start) + misalign;
    for (std::size_t i = 0; i < pieces; ++i) pieces_.push_back(base + i * stride_);
    if (arm.loop == nullptr && arm.pinned) pin(engine);
  }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at) seen(arm_, pieces_[i])[at] = expected_byte(seed, i * piece_bytes_ + at);
  }
  void wipe() { std::memset(seen(arm_, pages_), 0xee, page_bytes_); }
  bool holds(std::uint64_t seed) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at)
        if (seen(arm_, pieces_[i])[at] != expected_byte(seed, i * piece_bytes_ + at)) return false;
    return true;
  }
  bool gaps_untouched() const {
    const auto foreign = [this](std::byte* from, std::uint64_t bytes) {
      return static_cast<std::size_t>(std::count(seen(arm_, from), seen(arm_, from) + bytes, std::byte{0xee}));
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
  void pin(const CopyEngine& engine) {
    const std::uint64_t before = fake_cuda::counters().registered_bytes;
    ready_ = engine.make_ready(slot());
    ready_->present(slot_bytes_);
    EXPECT_TRUE(test::eventually([&] { return fake_cuda::counters().registered_bytes == before + slot_bytes_; }));
  }

  const Arm& arm_;
  std::uint64_t piece_bytes_;
  std::uint64_t stride_;
  std::size_t page_bytes_;
  std::vector<std::byte> host_pages_;
  std::byte* pages_;
  std::uint64_t payload_;
  std::uint64_t slot_bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> slot_;
  std::vector<std::byte*> pieces_;
  std::unique_ptr<ReadyMemory> ready_;
};

class CopyEngineTest : public testing::TestWithParam<Arm> {
 protected:
  ~CopyEngineTest() override {
    made_.reset();
    if (GetParam().loop == nullptr) fake_cuda::reset();
  }
  static std::unique_ptr<CopyEngine> make() {
    if (GetParam().loop != nullptr) return std::make_unique<HostCopyEngine>(*GetParam().loop);
    cuda::CudaOptions options;
    options.method = GetParam().method;
    options.measure_ways = {};
    options.staging_bytes = 24 << 10;
    options.kernels = GetParam().kernels ? testing_support::fake_kernels() : cuda::KernelImages();
    return cuda::CudaCopyEngine::make(fake_cuda::allocate(1), options).value();
  }
  std::unique_ptr<CopyEngine> made_ = make();
  const CopyEngine& engine_ = *made_;
};

TEST_P(CopyEngineTest, DigestsAreThoseOfTheProtocol) {
  for (const std::uint64_t piece_bytes : {1, 7, 64, 240, 241, 2048, 4095, 4096, 4097, 8192, 18432, 32768, 131072, 2 << 20}) {
    for (const std::size_t misalign : {0, 1, 8, 16, 32}) {
      Chunk chunk(GetParam(), engine_, piece_bytes, 3, misalign);
      chunk.fill(piece_bytes);
      const std::uint64_t root = engine_.store(chunk.list(), chunk.slot()).value();

      std::vector<std::uint64_t> expected(protocol::digest_count(chunk.payload_bytes(), piece_bytes));
      for (std::size_t i = 0; i < 3; ++i)
        protocol::piece_digests(seen(GetParam(), chunk.list().pieces[i]), piece_bytes,
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
    Chunk chunk(GetParam(), engine_, piece_bytes, 4, 0);
    chunk.fill(5);
    const std::uint64_t root = engine_.store(chunk.list(), chunk.slot()).value();
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
  Chunk chunk(GetParam(), engine_, 8192, 2, 0);
  chunk.fill(9);
  const std::uint64_t root = engine_.store(chunk.list(), chunk.slot()).value();
  std::swap_ranges(chunk.slot().data(), chunk.slot().data() + 4096, chunk.slot().data() + 4096);
  EXPECT_EQ(engine_.load(chunk.slot(), root, chunk.list()).code(), Code::kDataLoss);
}

TEST_P(CopyEngineTest, ASlotThatIsTooSmallIsRefused) {
  Chunk chunk(GetParam(), engine_, 4096, 2, 0);
  EXPECT_EQ(engine_.load(chunk.slot().first(8192), 0, chunk.list()).code(), Code::kInvalidArgument);
}

TEST_P(CopyEngineTest, ALoadLeavesNullPiecesOut) {
  constexpr std::uint64_t kPiece = 5000;
  Chunk chunk(GetParam(), engine_, kPiece, 4, 0);
  chunk.fill(7);
  const std::uint64_t root = engine_.store(chunk.list(), chunk.slot()).value();
  chunk.wipe();
  std::vector<std::byte*> pieces(chunk.list().pieces.begin(), chunk.list().pieces.end());
  const std::vector<std::byte*> all = pieces;
  pieces[0] = pieces[2] = nullptr;
  ASSERT_TRUE(engine_.load(chunk.slot(), root, {pieces, kPiece}).ok());
  for (std::uint64_t at = 0; at < kPiece; ++at) {
    ASSERT_EQ(seen(GetParam(), all[0])[at], std::byte{0xee});
    ASSERT_EQ(seen(GetParam(), all[1])[at], expected_byte(7, kPiece + at));
    ASSERT_EQ(seen(GetParam(), all[2])[at], std::byte{0xee});
    ASSERT_EQ(seen(GetParam(), all[3])[at], expected_byte(7, 3 * kPiece + at));
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
      Chunk& chunk = *chunks.emplace_back(std::make_unique<Chunk>(GetParam(), engine_, piece_bytes, 4, 0));
      chunk.fill(seed);
      const std::uint64_t root = engine_.store(chunk.list(), chunk.slot()).value();
      digests.emplace_back(4 * units);
      ASSERT_TRUE(verified_digests(chunk.slot(), chunk.payload_bytes(), root, digests.back()).ok());
      EXPECT_EQ(verified_digests(chunk.slot(), chunk.payload_bytes(), root ^ 1, digests.back()).code(), Code::kDataLoss);
      pieces.emplace_back(chunk.list().pieces.begin(), chunk.list().pieces.end());
      chunk.wipe();
    }
    const std::byte* const left_out = seen(GetParam(), pieces[1][3]);
    pieces[1][3] = nullptr;
    const auto load = [&] {
      std::vector<ChunkPart> parts;
      for (std::size_t i = 0; i < 2; ++i)
        parts.push_back({chunks[i]->slot().subspan(2 * piece_bytes, 2 * piece_bytes), std::span(pieces[i]).subspan(2, 2),
                         std::span(digests[i]).subspan(2 * units, 2 * units)});
      return engine_.load_parts(parts, piece_bytes, nullptr);
    };
    chunks[0]->slot()[0] ^= std::byte{1};                    // of another part
    chunks[1]->slot()[4 * piece_bytes - 1] ^= std::byte{1};  // of the piece that is left out
    ASSERT_TRUE(load().ok());
    for (std::uint64_t at = 0; at < piece_bytes; ++at) {
      ASSERT_EQ(seen(GetParam(), pieces[0][1])[at], std::byte{0xee});
      ASSERT_EQ(seen(GetParam(), pieces[0][2])[at], expected_byte(3, 2 * piece_bytes + at));
      ASSERT_EQ(seen(GetParam(), pieces[0][3])[at], expected_byte(3, 3 * piece_bytes + at));
      ASSERT_EQ(seen(GetParam(), pieces[1][2])[at], expected_byte(4, 2 * piece_bytes + at));
      ASSERT_EQ(left_out[at], std::byte{0xee});
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

TEST_P(CopyEngineTest, ATableThatIsNotTheRootsSpeaksForNothing) {
  Chunk chunk(GetParam(), engine_, 5000, 2, 0);
  chunk.fill(6);
  const std::uint64_t root = engine_.store(chunk.list(), chunk.slot()).value();
  std::vector<std::uint64_t> digests(protocol::digest_count(chunk.payload_bytes(), 5000));
  chunk.slot()[protocol::digest_table_offset(chunk.payload_bytes()) + 9] ^= std::byte{1};
  EXPECT_EQ(verified_digests(chunk.slot(), chunk.payload_bytes(), root, digests).code(), Code::kDataLoss);
  EXPECT_EQ(verified_digests(chunk.slot().first(10000), chunk.payload_bytes(), root, digests).code(), Code::kInvalidArgument);
}

std::vector<Arm> arms() {
  std::vector<Arm> all;
  for (const HostLoop* loop : host_loops()) all.push_back({loop->name, loop});
  for (const bool pinned : {true, false}) {
    const std::string where = pinned ? "" : "_staged";
    all.push_back({"cuda_kernel" + where, nullptr, cuda::Method::kKernel, true, pinned});
    all.push_back({"cuda_batch" + where, nullptr, cuda::Method::kBatch, true, pinned});
    all.push_back({"cuda_without_kernels" + where, nullptr, cuda::Method::kAuto, false, pinned});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Engines, CopyEngineTest, testing::ValuesIn(arms()), [](const auto& arm) { return arm.param.name; });

}  // namespace
}  // namespace larder::copy
