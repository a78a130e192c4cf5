// Tests of CUDA's engine beyond the conformance suite: order behind the engine's work, and the
// choice of the way.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/cuda/cuda_engine_fixture.h"

namespace larder::copy::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// When a save begins, work that is still queued fills its pages; when a load begins, queued work
// still writes its pages.
TEST_F(CudaCopyEngineTest, CopiesRunBehindQueuedEngineWork) {
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    DeviceChunk chunk(8192, 3);
    CudaCopyEngine& engine = make(strategy.method, chunk.page());
    if (strategy.pinned) chunk.pin(engine);
    void* const stream = fake_cuda::make_stream();
    const auto late = [&](int seed) {
      fake_cuda::run(stream, [&chunk, seed] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        chunk.fill(seed);
      });
      return engine.fence(stream).value();
    };
    const std::shared_ptr<const Fence> filled = late(1);
    const std::uint64_t root = engine.store(chunk.list(filled.get()), chunk.slot()).value();
    const std::shared_ptr<const Fence> others = late(2);
    ASSERT_TRUE(engine.load(chunk.slot(), root, chunk.list(others.get())).ok());
    ASSERT_TRUE(others->wait().ok());
    EXPECT_TRUE(chunk.holds(1));
  }
}

// Before the copies the pages hold the right bytes, as after an earlier load of the chunk.
TEST_F(CudaCopyEngineTest, PagesAreDigestedAfterTheCopiesOntoThem) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
  chunk.slot()[8192 + 5000] ^= std::byte{1};
  fake_cuda::delay_ms(20, "copy");
  EXPECT_EQ(engine.load(chunk.slot(), root, chunk.list()).code(), Code::kDataLoss);
}

// The second piece is the first of a batch (copy_entries.cc). During a load on the device the slot
// is overwritten, and restored right after the copy. A direct copy must find the difference on the
// pages. A load that went through staging before must give the earlier bytes.
TEST_F(CudaCopyEngineTest, LoadVerifiesTheBytesOnThePages) {
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    DeviceChunk chunk(8192, 2);
    CudaCopyEngine& engine = make(strategy.method, chunk.page());
    if (strategy.pinned) chunk.pin(engine);
    chunk.fill(1);
    const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
    void* const stream = fake_cuda::make_stream();
    std::promise<void> overwritten;
    fake_cuda::run(stream, [&] { overwritten.get_future().wait(); });
    const std::shared_ptr<const Fence> fence = engine.fence(stream).value();
    std::future<Status> loaded = std::async(std::launch::async, [&] {
      return engine.load(chunk.slot(), root, chunk.list(fence.get()));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(strategy.pinned ? 0 : 50));
    chunk.slot()[8192 + 5000] ^= std::byte{1};
    fake_cuda::then(strategy.method == Method::kKernel ? "kernel" : "copy",
                    [&] { chunk.slot()[8192 + 5000] ^= std::byte{1}; });
    overwritten.set_value();
    const Status status = loaded.get();
    if (strategy.pinned) {
      EXPECT_EQ(status.code(), Code::kDataLoss);
    } else if (status.ok()) {
      EXPECT_TRUE(chunk.holds(1));
    }
  }
}

// A launch fails while copies or an earlier kernel of the load are under way.
TEST_F(CudaCopyEngineTest, FailedCallWritesNothingAfterItsReturn) {
  for (const auto& [method, launch] :
       {std::pair(Method::kBatch, 1), std::pair(Method::kKernel, 2)}) {
    DeviceChunk chunk(3 << 20, 2);
    CudaCopyEngine& engine = make(method, chunk.page());
    chunk.pin(engine);
    chunk.fill(1);
    const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
    fake_cuda::delay_ms(50);
    fake_cuda::fail("cuLaunchKernel", launch, kInvalidValue);
    EXPECT_EQ(engine.load(chunk.slot(), root, chunk.list()).code(), Code::kUnavailable);
    expect_nothing_late(chunk);
    fake_cuda::delay_ms(0);
  }
}

TEST_F(CudaCopyEngineTest, SmallPiecesUseTheKernelAndLargeOnesTheCopyEngines) {
  DeviceChunk small(16384, 4), large(1 << 20, 4);
  CudaCopyEngine& engine = make(Method::kAuto, small.page());
  small.pin(engine);
  large.pin(engine);
  const std::uint64_t root_of_small = engine.store(small.list(), small.slot()).value();
  const std::uint64_t root_of_large = engine.store(large.list(), large.slot()).value();
  EXPECT_EQ(fake_cuda::counters().kernels, 2U) << "that digest: stores go by the copy engines";
  EXPECT_EQ(fake_cuda::counters().batches, 2U);
  EXPECT_TRUE(engine.load(small.slot(), root_of_small, small.list()).ok());
  EXPECT_EQ(fake_cuda::counters().kernels, 3U);
  EXPECT_EQ(fake_cuda::counters().batches, 2U);
  EXPECT_TRUE(engine.load(large.slot(), root_of_large, large.list()).ok());
  EXPECT_EQ(fake_cuda::counters().kernels, 4U);
  EXPECT_EQ(fake_cuda::counters().batches, 3U);
  EXPECT_EQ(engine.strategy().in_words(),
            "stores by the copy engines, loads below 32 KiB a piece by kernels");
  EXPECT_LE(fake_cuda::counters().most_blocks, 8U);
}

// Host threads do not read the bytes that the copy engines wrote. The pages are digested in place,
// so a byte that changed on its way into the slot is found.
TEST_F(CudaCopyEngineTest, CopyEngineStoreIsDigestedOnItsPages) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  fake_cuda::then("copy", [&] { chunk.slot()[8192 + 5000] ^= std::byte{1}; });
  const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(engine.load(chunk.slot(), *root, chunk.list()).code(), Code::kDataLoss);
  chunk.fill(2);
  const Result<std::uint64_t> right = engine.store(chunk.list(), chunk.slot());
  ASSERT_TRUE(right.ok());
  chunk.fill(3);
  EXPECT_TRUE(engine.load(chunk.slot(), *right, chunk.list()).ok());
  EXPECT_TRUE(chunk.holds(2));
}

TEST_F(CudaCopyEngineTest, ADriverWithoutBatchesCopiesPieceByPiece) {
  DeviceChunk chunk(1000, 4);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  fake_cuda::fail("cuMemcpyBatchAsync", 1, kNotSupported, false, 1000);
  chunk.fill(3);
  const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
  EXPECT_EQ(fake_cuda::counters().copies, 4U);
  chunk.fill(4);
  EXPECT_TRUE(engine.load(chunk.slot(), root, chunk.list()).ok());
  EXPECT_TRUE(chunk.holds(3));
  EXPECT_TRUE(said_.lines().empty());
}

// An engine has chunks of many sizes. The driver refuses the 13th allocation of pinned memory.
TEST_F(CudaCopyEngineTest, GrowingChunksAllocatePinnedMemoryRarely) {
  DeviceChunk first(4096, 1);
  CudaCopyEngine& engine = make(Method::kKernel, first.page());
  fake_cuda::fail("cuMemHostAlloc", 13, kOutOfMemory);
  for (std::size_t pieces = 1; pieces <= 60; ++pieces) {
    DeviceChunk chunk(4096, pieces);
    ASSERT_TRUE(engine.store(chunk.list(), chunk.slot()).ok()) << pieces;
  }
}

TEST_F(CudaCopyEngineTest, OutOfMemoryFailsOneCopyOnly) {
  DeviceChunk chunk(4096, 4);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  fake_cuda::fail("cuMemHostAlloc", 1, kOutOfMemory);
  EXPECT_EQ(engine.store(chunk.list(), chunk.slot()).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_TRUE(said_.lines().empty());
}

// A driver refuses machine code for other processors.
TEST_F(CudaCopyEngineTest, KernelImageAcceptedByTheDriverIsUsed) {
  constexpr int kNoBinaryForGpu = 209;
  DeviceChunk chunk(4096, 2);
  fake_cuda::fail("cuModuleLoadData", 1, kNoBinaryForGpu);
  CudaCopyEngine& second = make(Method::kKernel, chunk.page());
  EXPECT_TRUE(second.store(chunk.list(), chunk.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().kernels, 1U);
  EXPECT_TRUE(said_.lines().empty());
  fake_cuda::fail("cuModuleLoadData", 1, kNoBinaryForGpu, false, 2);
  CudaCopyEngine& without = make(Method::kKernel, chunk.page());
  EXPECT_TRUE(without.store(chunk.list(), chunk.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().kernels, 1U);
  EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("the copy kernels cannot be loaded")));
}

// A new event for each load would cost the engine's thread more than the rest of the request.
TEST_F(CudaCopyEngineTest, ReleasedFenceEventIsReused) {
  DeviceChunk chunk(4096, 2);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  const std::uint64_t before = fake_cuda::counters().events;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(engine.fence(nullptr).ok());
  EXPECT_EQ(fake_cuda::counters().events, before + 1);
  const auto one = engine.fence(nullptr), other = engine.fence(nullptr);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(fake_cuda::counters().events, before + 2) << "two that are needed are two";
}

TEST_F(CudaCopyEngineTest, LarderStreamsHaveTheLowestPriority) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().streams, 7U) << "one of the call, one of the kernels of each "
                                                  "direction, and two of the copies' lanes in each";
  EXPECT_EQ(fake_cuda::counters().other_streams, 0U);
}

TEST_F(CudaCopyEngineTest, PagesWithoutContextUseThePrimaryContext) {
  std::byte* const page = fake_cuda::allocate(4096, true);
  EXPECT_TRUE(CudaCopyEngine::make(page, {}).ok());
  EXPECT_EQ(*device_of(page), *device_of(fake_cuda::allocate(1)));
}

TEST_F(CudaCopyEngineTest, HostMemoryHasNoDevice) {
  std::byte host{};
  EXPECT_EQ(*device_of(&host), 0U);
  EXPECT_EQ(CudaCopyEngine::make(&host, {}).status().code(), Code::kNotFound);
  fake_cuda::fail("cuPointerGetAttribute", 1, kIllegalAddress);
  EXPECT_FALSE(device_of(&host).ok()) << "no host code may touch memory that may lie on a device";
}

}  // namespace
}  // namespace larder::copy::cuda
