// Delays that a copy must not meet: allocation or release of pinned memory, extra waits, large
// kernels. Also the failures of a batch.
#include <gmock/gmock.h>

#include "tests/cuda/cuda_engine_fixture.h"

namespace larder::copy::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// An allocation of pinned memory waits for any registration on the node.
TEST_F(CudaCopyEngineTest, PreparedEngineAllocatesNoPinnedMemoryInCopies) {
  constexpr std::size_t kPieces = 300;
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    DeviceChunk chunk(5000, kPieces);
    CudaCopyEngine& engine = make(strategy.method, chunk.page());
    engine.prepare(5000, kPieces, 2);
    if (strategy.pinned) chunk.pin(engine);
    const fake_cuda::Counters before = fake_cuda::counters();
    chunk.fill(1);
    const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
    ASSERT_TRUE(engine.load(chunk.slot(), root, chunk.list()).ok());
    std::vector<std::uint64_t> digests(protocol::digest_count(5000 * kPieces, 5000));
    ASSERT_TRUE(verified_digests(chunk.slot(), 5000 * kPieces, root, digests).ok());
    const ChunkPart part{chunk.slot().first(5000 * kPieces), chunk.list().pieces, digests};
    const std::vector<ChunkPart> many(CudaCopyEngine::kJoinedBytes / (5000 * kPieces) + 2, part);
    if (strategy.pinned) {
      ASSERT_TRUE(engine.load_parts(many, 5000, nullptr).ok());
    }
    EXPECT_EQ(fake_cuda::counters().host_allocs, before.host_allocs);
    EXPECT_EQ(fake_cuda::counters().streams, before.streams);
  }
}

// A release may wait for all work of the GPU: for a model's step.
TEST_F(CudaCopyEngineTest, CopiesNeverFreePinnedMemory) {
  DeviceChunk small(8192, 2), large(8192, 9000);
  CudaCopyEngine& engine = make(Method::kKernel, small.page());
  small.pin(engine);
  large.pin(engine);
  EXPECT_TRUE(engine.store(small.list(), small.slot()).ok());
  EXPECT_TRUE(engine.store(large.list(), large.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().host_frees, 0U);
  engine_.reset();
  EXPECT_EQ(fake_cuda::counters().pinned_bytes, 0U);
}

TEST_F(CudaCopyEngineTest, FailedPinnedAllocationIsLoggedAndRetriedByCopies) {
  DeviceChunk chunk(8192, 2);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  fake_cuda::fail("cuMemHostAlloc", 1, kOutOfMemory);
  engine.prepare(8192, 2, 2);
  EXPECT_THAT(said_.lines(),
              ElementsAre(HasSubstr("warning memory for copies of a GPU was not ready in time")));
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
}

// One sleep and wake-up take as long as the copy of a small chunk.
TEST_F(CudaCopyEngineTest, AStoreByTheCopyEnginesWaitsOnceAndDigestsMeanwhile) {
  DeviceChunk chunk(64 << 10, 4);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  fake_cuda::delay_ms(30, "copy");
  fake_cuda::delay_ms(100, "digest");
  const std::uint64_t before = fake_cuda::counters().host_waits;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200))
      << "4 copies of 30 ms beside 100 ms";
  EXPECT_EQ(fake_cuda::counters().host_waits, before + 1);
}

// The batches of a store wait for each other on the device.
TEST_F(CudaCopyEngineTest, StoreOfManyBatchesWaitsOnce) {
  for (const KernelImages& kernels :
       {KernelImages(testing_support::fake_kernels()), KernelImages()}) {
    DeviceChunk chunk(3 << 20, 5);
    CudaOptions options = the_options();
    options.method = Method::kBatch;
    options.kernels = kernels;
    engine_ = CudaCopyEngine::make(chunk.page(), options).value();
    chunk.pin(*engine_);
    const fake_cuda::Counters before = fake_cuda::counters();
    ASSERT_TRUE(engine_->store(chunk.list(), chunk.slot()).ok());
    EXPECT_EQ(fake_cuda::counters().host_waits, before.host_waits + 1);
    EXPECT_EQ(fake_cuda::counters().batches + fake_cuda::counters().copies - before.batches -
                  before.copies,
              2U)
        << "15 MiB in batches of 8";
  }
}

TEST_F(CudaCopyEngineTest, PartsOfManyChunksAreOneBatchAndOneWait) {
  DeviceChunk one(16384, 4), other(16384, 4);
  CudaCopyEngine& engine = make(Method::kBatch, one.page());
  std::vector<ChunkPart> parts;
  std::vector<std::vector<std::uint64_t>> digests;
  for (DeviceChunk* chunk : {&one, &other}) {
    chunk->pin(engine);
    chunk->fill(1);
    const std::uint64_t root = engine.store(chunk->list(), chunk->slot()).value();
    digests.emplace_back(protocol::digest_count(4 * 16384, 16384));
    ASSERT_TRUE(verified_digests(chunk->slot(), 4 * 16384, root, digests.back()).ok());
    chunk->fill(2);
  }
  parts = {{one.slot().first(4 * 16384), one.list().pieces, digests[0]},
           {other.slot().first(4 * 16384), other.list().pieces, digests[1]}};
  const fake_cuda::Counters before = fake_cuda::counters();
  ASSERT_TRUE(engine.load_parts(parts, 16384, nullptr).ok());
  const fake_cuda::Counters after = fake_cuda::counters();
  EXPECT_EQ(after.batches, before.batches + 1);
  EXPECT_EQ(after.kernels, before.kernels + 1);
  EXPECT_EQ(after.host_waits, before.host_waits + 2) << "for the copies, and for the digests";
  EXPECT_TRUE(one.holds(1) && other.holds(1));
}

// A kernel of the model that needs every multiprocessor waits for the end of Larder's kernels.
TEST_F(CudaCopyEngineTest, KernelMovesFewMebibytesAndOneKernelDigestsAChunk) {
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    DeviceChunk chunk(1 << 20, 11), one(6 << 20, 2);
    CudaCopyEngine& engine = make(strategy.method, chunk.page());
    if (strategy.pinned) chunk.pin(engine);
    chunk.fill(1);
    const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
    chunk.fill(2);
    ASSERT_TRUE(engine.load(chunk.slot(), root, chunk.list()).ok());
    EXPECT_TRUE(chunk.holds(1));
    EXPECT_LE(fake_cuda::counters().most_moved_bytes, CudaCopyEngine::kLaunchBytes);
    const std::uint64_t digested = fake_cuda::counters().most_digested_bytes;
    EXPECT_TRUE(digested == 0 || digested == 11 << 20) << digested;
    EXPECT_TRUE(engine.store(one.list(), one.slot()).ok()) << "a piece is never divided";
    engine_.reset();
    fake_cuda::reset();
  }
}

TEST_F(CudaCopyEngineTest, KernelsUseASixteenthOfTheMultiprocessors) {
  for (const auto& [processors, blocks] :
       {std::pair(132U, 8U), std::pair(108U, 6U), std::pair(58U, 3U), std::pair(31U, 1U),
        std::pair(16U, 1U), std::pair(15U, 1U), std::pair(0U, 1U)})
    EXPECT_EQ(CudaCopyEngine::blocks_of(processors), blocks);
  fake_cuda::have(58);
  DeviceChunk chunk(64 << 10, 4);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  chunk.pin(engine);
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().most_blocks, 3U);
}

// After a refusal of the call, not of the device, these copies and all later ones go one by one.
// The engine goes on.
// covers F-039
TEST_F(CudaCopyEngineTest, RefusedBatchCallDisablesBatchesAndIsLoggedOnce) {
  constexpr int kUnknown = 999;
  for (const int code : {kInvalidValue, kNotInitialized, 100, kInvalidContext, 400, kUnknown}) {
    SCOPED_TRACE(code);
    DeviceChunk chunk(8192, 3);
    CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
    chunk.pin(engine);
    said_.clear();
    const fake_cuda::Counters before = fake_cuda::counters();
    fake_cuda::fail("cuMemcpyBatchAsync", 1, code);
    chunk.fill(1);
    const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
    ASSERT_TRUE(root.ok()) << root.status().to_string();
    chunk.fill(2);
    EXPECT_TRUE(engine.load(chunk.slot(), *root, chunk.list()).ok());
    EXPECT_TRUE(chunk.holds(1));
    EXPECT_EQ(fake_cuda::counters().batches, before.batches);
    EXPECT_EQ(fake_cuda::counters().copies, before.copies + 6);
    EXPECT_THAT(
        said_.lines(),
        ElementsAre(AllOf(HasSubstr("warning copies of a GPU are made one by one from here on"),
                          HasSubstr("cuMemcpyBatchAsync"), HasSubstr(", copy 0 of 3"))));
    engine_.reset();
  }
}

TEST_F(CudaCopyEngineTest, OutOfMemoryInABatchKeepsBatchesEnabled) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  fake_cuda::fail("cuMemcpyBatchAsync", 1, kOutOfMemory);
  EXPECT_EQ(engine.store(chunk.list(), chunk.slot()).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().batches, 1U);
  EXPECT_THAT(said_.lines(), IsEmpty());
}

// WSL2 and para-virtual GPUs: a batch with the host address of registered memory gives a sticky
// error.
TEST_F(CudaCopyEngineTest, RegisteredMemoryUsesItsDeviceAddress) {
  fake_cuda::have(132, false);
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
  chunk.fill(2);
  ASSERT_TRUE(engine.load(chunk.slot(), root, chunk.list()).ok());
  EXPECT_TRUE(chunk.holds(1));
  EXPECT_THAT(said_.lines(), Not(testing::Contains(HasSubstr("have ended"))));
}

}  // namespace
}  // namespace larder::copy::cuda
