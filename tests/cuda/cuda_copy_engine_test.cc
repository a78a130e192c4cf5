// What CUDA's engine adds to the conformance suite: order after the engine's work, the ways that it picks, and what becomes of it when CUDA fails.
#include "cuda/cuda_copy_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "tests/cuda/device_chunk.h"
#include "tests/cuda/said.h"

namespace larder::copy::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::DeviceChunk;

struct Way {
  const char* name;
  Method method;
  bool pinned;
};

class CudaCopyEngineTest : public testing::Test {
 protected:
  ~CudaCopyEngineTest() override {
    engine_.reset();
    fake_cuda::reset();
  }
  CudaCopyEngine& make(Method method, const std::byte* page) {
    CudaOptions options;
    options.method = method;
    options.measure_ways = {};
    options.kernels = testing_support::fake_kernels();
    options.log = said_.log();
    engine_ = CudaCopyEngine::make(page, options).value();
    return *engine_;
  }
  static std::vector<Way> ways() {
    return {{"kernel", Method::kKernel, true},
            {"batch", Method::kBatch, true},
            {"kernel staged", Method::kKernel, false},
            {"batch staged", Method::kBatch, false}};
  }
  // Of a call that has returned: whoever has the pages now keeps what he writes.
  static void expect_nothing_late(DeviceChunk& chunk) {
    chunk.fill(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(chunk.holds(2));
  }
  std::unique_ptr<CudaCopyEngine> engine_;
  testing_support::Said said_;
};

// The pages of a save are filled by work that is still queued when the save begins; those of a load are still written by it.
TEST_F(CudaCopyEngineTest, CopiesComeAfterWhatTheEngineQueued) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    DeviceChunk chunk(8192, 3);
    CudaCopyEngine& engine = make(way.method, chunk.page());
    if (way.pinned) chunk.pin(engine);
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
    EXPECT_TRUE(chunk.holds(1));
  }
}

// A load waits on the device; its slot is overwritten meanwhile, and is as before again as soon as it was copied. Where the copy is direct, what came to lie on the pages is found out; where
// it went through staging before, the pages get what was there before.
TEST_F(CudaCopyEngineTest, WhatLiesOnThePagesIsVerifiedNotWhatLiesInTheSlot) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    DeviceChunk chunk(8192, 2);
    CudaCopyEngine& engine = make(way.method, chunk.page());
    if (way.pinned) chunk.pin(engine);
    chunk.fill(1);
    const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
    void* const stream = fake_cuda::make_stream();
    std::promise<void> overwritten;
    fake_cuda::run(stream, [&] { overwritten.get_future().wait(); });
    const std::shared_ptr<const Fence> fence = engine.fence(stream).value();
    std::future<Status> loaded =
        std::async(std::launch::async, [&] { return engine.load(chunk.slot(), root, chunk.list(fence.get())); });
    std::this_thread::sleep_for(std::chrono::milliseconds(way.pinned ? 0 : 50));
    chunk.slot()[5000] ^= std::byte{1};
    fake_cuda::then(way.method == Method::kKernel ? "kernel" : "copy", [&] { chunk.slot()[5000] ^= std::byte{1}; });
    overwritten.set_value();
    const Status status = loaded.get();
    if (way.pinned) {
      EXPECT_EQ(status.code(), Code::kDataLoss);
    } else if (status.ok()) {
      EXPECT_TRUE(chunk.holds(1));
    }
  }
}

TEST_F(CudaCopyEngineTest, NoByteIsWrittenAfterAFailedCallReturned) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
  fake_cuda::delay_ms(20);
  fake_cuda::fail("cuLaunchKernel", 1, kInvalidValue);  // of the digests, when the copies are on their way
  EXPECT_EQ(engine.load(chunk.slot(), root, chunk.list()).code(), Code::kUnavailable);
  expect_nothing_late(chunk);
}

TEST_F(CudaCopyEngineTest, SmallPiecesGoByTheKernelAndLargeOnesByTheCopyEngines) {
  DeviceChunk small(16384, 4), large(1 << 20, 4);
  CudaCopyEngine& engine = make(Method::kAuto, small.page());
  small.pin(engine);
  large.pin(engine);
  const std::uint64_t root_of_small = engine.store(small.list(), small.slot()).value();
  EXPECT_EQ(fake_cuda::counters().kernels, 1U);
  EXPECT_EQ(fake_cuda::counters().batches, 0U);
  const std::uint64_t root_of_large = engine.store(large.list(), large.slot()).value();
  EXPECT_EQ(fake_cuda::counters().kernels, 2U) << "one that copies, one that digests";
  EXPECT_EQ(fake_cuda::counters().batches + fake_cuda::counters().copies, 1U);
  EXPECT_TRUE(engine.load(small.slot(), root_of_small, small.list()).ok());
  EXPECT_TRUE(engine.load(large.slot(), root_of_large, large.list()).ok());
  EXPECT_EQ(fake_cuda::counters().kernels, 4U) << "one that copies, one that digests";
  EXPECT_LE(fake_cuda::counters().most_blocks, 8U);
}

// No thread of the host reads what the copy engines wrote: the pages are digested where they lie, so that a byte that went wrong on its way into the slot is found.
TEST_F(CudaCopyEngineTest, AStoreByTheCopyEnginesIsDigestedWhereItsPagesLie) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  fake_cuda::then("copy", [&] { chunk.slot()[5000] ^= std::byte{1}; });
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

// Chunks of an engine come in many sizes; the 13th piece of pinned memory that is asked for is refused.
TEST_F(CudaCopyEngineTest, PinnedMemoryIsAskedForSeldomWhileChunksGrow) {
  DeviceChunk first(4096, 1);
  CudaCopyEngine& engine = make(Method::kKernel, first.page());
  fake_cuda::fail("cuMemHostAlloc", 13, kOutOfMemory);
  for (std::size_t pieces = 1; pieces <= 60; ++pieces) {
    DeviceChunk chunk(4096, pieces);
    ASSERT_TRUE(engine.store(chunk.list(), chunk.slot()).ok()) << pieces;
  }
}

TEST_F(CudaCopyEngineTest, LackOfMemoryFailsOneCopyAlone) {
  DeviceChunk chunk(4096, 4);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  fake_cuda::fail("cuMemHostAlloc", 1, kOutOfMemory);
  EXPECT_EQ(engine.store(chunk.list(), chunk.slot()).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_TRUE(said_.lines().empty());
}

// As a driver refuses the machine code of other processors.
TEST_F(CudaCopyEngineTest, KernelsAreThoseThatTheDriverTakes) {
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

// Whatever fails at whatever call, sticking or not: no wrong byte, one line in the log, no thread left with a context of ours, and nothing
// left behind.
TEST_F(CudaCopyEngineTest, AnErrorEndsTheEngineForGoodAndIsSaidOnce) {
  for (const char* function : {"cuCtxPushCurrent", "cuStreamCreateWithPriority", "cuStreamWaitEvent", "cuEventCreate",
                               "cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc", "cuMemHostGetDevicePointer",
                               "cuMemcpyBatchAsync", "cuLaunchKernel", "kernel", "copy"})
    for (const bool sticky : {false, true})
      for (const Way& way : ways())
        for (int nth = 1; nth <= 3; ++nth) {
          if (!sticky && (function == std::string("kernel") || function == std::string("copy"))) continue;  // those always stick
          SCOPED_TRACE(testing::Message() << function << " " << nth << (sticky ? " sticks " : " ") << way.name);
          DeviceChunk chunk(5000, 3);
          CudaCopyEngine& engine = make(way.method, chunk.page());
          if (way.pinned) chunk.pin(engine);
          said_.clear();
          chunk.fill(1);
          fake_cuda::fail(function, nth, kIllegalAddress, sticky);
          const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
          chunk.fill(2);
          const Status loaded = root.ok() ? engine.load(chunk.slot(), *root, chunk.list()) : root.status();
          if (loaded.ok()) {
            EXPECT_TRUE(chunk.holds(1));
            EXPECT_TRUE(said_.lines().empty());
          } else {
            EXPECT_EQ(loaded.code(), Code::kUnavailable) << loaded.to_string();
            EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("error copies from and to the GPU have ended in this engine")));
            EXPECT_EQ(engine.load(chunk.slot(), 0, chunk.list()).code(), Code::kUnavailable);
            EXPECT_EQ(engine.store(chunk.list(), chunk.slot()).status().code(), Code::kUnavailable);
            EXPECT_EQ(engine.fence(nullptr).status().code(), Code::kUnavailable);
            EXPECT_EQ(said_.lines().size(), 1U);
          }
          EXPECT_EQ(fake_cuda::contexts_of_thread(), 0U);
          engine_.reset();
          EXPECT_EQ(fake_cuda::counters().streams, 0U);
          fake_cuda::forget_faults();
        }
}

// An engine captures a graph of its forward pass, on this thread, while copies of ours run on this one and on others.
TEST_F(CudaCopyEngineTest, ACaptureGoesOnWhateverIsCopiedMeanwhile) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    DeviceChunk chunk(8192, 3);
    void* const stream = fake_cuda::make_stream();
    fake_cuda::begin_capture(stream);
    CudaCopyEngine& engine = make(way.method, chunk.page());
    if (way.pinned) chunk.pin(engine);
    chunk.fill(1);
    const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
    ASSERT_TRUE(root.ok()) << root.status().to_string();
    chunk.fill(2);
    EXPECT_TRUE(std::async(std::launch::async, [&] { return engine.load(chunk.slot(), *root, chunk.list()); }).get().ok());
    EXPECT_TRUE(chunk.holds(1));
    EXPECT_TRUE(fake_cuda::end_capture(stream));
    EXPECT_TRUE(said_.lines().empty());
  }
}

TEST_F(CudaCopyEngineTest, NoCopyComesBehindAStreamThatIsCaptured) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  void* const stream = fake_cuda::make_stream();
  void* const other = fake_cuda::make_stream();
  fake_cuda::begin_capture(stream);
  const Status refused = engine.fence(stream).status();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.text(), HasSubstr("being captured"));
  EXPECT_EQ(engine.fence(nullptr).status().code(), Code::kFailedPrecondition) << "the legacy stream waits for all others";
  const Result<std::shared_ptr<const Fence>> beside = engine.fence(other);
  ASSERT_TRUE(beside.ok());
  EXPECT_TRUE(engine.store(chunk.list(beside->get()), chunk.slot()).ok());
  EXPECT_TRUE(fake_cuda::end_capture(stream)) << "nobody has spoilt it";
  EXPECT_TRUE(engine.fence(stream).ok());
  EXPECT_TRUE(engine.fence(nullptr).ok());
  EXPECT_TRUE(said_.lines().empty());
}

// Whatever is refused because of a capture that we did not expect: that copy fails, when nothing of it is under way any more, and the next one is made.
TEST_F(CudaCopyEngineTest, ARefusalBecauseOfACaptureEndsOneCopyAlone) {
  for (const char* function : {"cuStreamCreateWithPriority", "cuStreamIsCapturing", "cuStreamWaitEvent", "cuEventCreate",
                               "cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc", "cuMemcpyBatchAsync", "cuLaunchKernel"})
    for (const Way& way : ways())
      for (const int code : {kFirstCaptureError, kCaptureImplicit, kLastCaptureError}) {
        SCOPED_TRACE(testing::Message() << function << " " << code << " " << way.name);
        DeviceChunk chunk(5000, 3);
        CudaCopyEngine& engine = make(way.method, chunk.page());
        if (way.pinned) chunk.pin(engine);
        chunk.fill(1);
        fake_cuda::delay_ms(1);
        fake_cuda::fail(function, 1, code);
        fake_cuda::fail("cuStreamSynchronize", 1, code, false, 3);
        const Result<std::shared_ptr<const Fence>> fence = engine.fence(nullptr);
        const Result<std::uint64_t> root =
            fence.ok() ? engine.store(chunk.list(fence->get()), chunk.slot()) : Result<std::uint64_t>(fence.status());
        if (!root.ok()) {
          EXPECT_EQ(root.status().code(), Code::kFailedPrecondition) << root.status().to_string();
        }
        fake_cuda::forget_faults();
        const Result<std::uint64_t> again = engine.store(chunk.list(), chunk.slot());
        ASSERT_TRUE(again.ok()) << again.status().to_string();
        chunk.fill(2);
        EXPECT_TRUE(engine.load(chunk.slot(), *again, chunk.list()).ok());
        EXPECT_TRUE(chunk.holds(1));
        EXPECT_TRUE(said_.lines().empty());
        engine_.reset();
        EXPECT_EQ(fake_cuda::counters().streams, 0U);
        fake_cuda::delay_ms(0);
      }
}

TEST_F(CudaCopyEngineTest, ACopyIsOverBeforeItIsReportedAsRefused) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
  fake_cuda::delay_ms(20);
  fake_cuda::fail("cuEventSynchronize", 1, kFirstCaptureError);
  fake_cuda::fail("cuStreamSynchronize", 1, kFirstCaptureError, false, 3);
  EXPECT_EQ(engine.load(chunk.slot(), root, chunk.list()).code(), Code::kFailedPrecondition);
  expect_nothing_late(chunk);
}

TEST_F(CudaCopyEngineTest, NothingIsLeftBehind) {
  {
    DeviceChunk chunk(4096, 2);
    CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
    chunk.pin(engine);
    EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
    EXPECT_TRUE(engine.fence(nullptr).ok());
  }
  EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U) << "with the arena";
  engine_.reset();
  const fake_cuda::Counters left = fake_cuda::counters();
  EXPECT_EQ(left.streams, 0U);
  EXPECT_EQ(left.events, 0U);
  EXPECT_EQ(left.pinned_bytes, 0U);
  EXPECT_EQ(left.modules, 0U);
}

// Making an event for each load would cost the engine's thread more than the rest of asking for it.
TEST_F(CudaCopyEngineTest, TheEventOfAFenceThatIsNotNeededAnyMoreIsTheNextOnes) {
  DeviceChunk chunk(4096, 2);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  const std::uint64_t before = fake_cuda::counters().events;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(engine.fence(nullptr).ok());
  EXPECT_EQ(fake_cuda::counters().events, before + 1);
  const auto one = engine.fence(nullptr), other = engine.fence(nullptr);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(fake_cuda::counters().events, before + 2) << "two that are needed are two";
}

TEST_F(CudaCopyEngineTest, SeveralThreadsCopyAtOnce) {
  constexpr int kThreads = 4;
  std::vector<std::unique_ptr<DeviceChunk>> chunks;
  for (int i = 0; i < kThreads; ++i) chunks.push_back(std::make_unique<DeviceChunk>(16384, 4));
  CudaCopyEngine& engine = make(Method::kAuto, chunks[0]->page());
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        for (int round = 0; round < 20; ++round) {
          DeviceChunk& chunk = *chunks[static_cast<std::size_t>(i)];
          chunk.fill(i * 100 + round);
          const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
          chunk.fill(7777);
          if (root.ok() && engine.load(chunk.slot(), *root, chunk.list()).ok() && chunk.holds(i * 100 + round)) ++right;
        }
      });
  }
  EXPECT_EQ(right, kThreads * 20);
}

// What a model keeps of its multiprocessors does not hang on how many threads copy, nor on the way that they do it.
TEST_F(CudaCopyEngineTest, AllKernelsOfAnEngineTogetherHaveItsMultiprocessors) {
  constexpr int kThreads = 4;
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    std::vector<std::unique_ptr<DeviceChunk>> chunks;
    for (int i = 0; i < kThreads; ++i) chunks.push_back(std::make_unique<DeviceChunk>(64 << 10, 4));
    CudaCopyEngine& engine = make(way.method, chunks[0]->page());
    if (way.pinned)
      for (const auto& chunk : chunks) chunk->pin(engine);
    fake_cuda::delay_ms(1);
    std::atomic<int> right{0};
    {
      std::vector<std::jthread> threads;
      for (const auto& chunk : chunks)
        threads.emplace_back([&] {
          for (int round = 0; round < 6; ++round) {
            chunk->fill(round);
            const Result<std::uint64_t> root = engine.store(chunk->list(), chunk->slot());
            if (root.ok() && engine.load(chunk->slot(), *root, chunk->list()).ok() && chunk->holds(round)) ++right;
          }
        });
    }
    EXPECT_EQ(right, kThreads * 6);
    const bool kernels = way.pinned || way.method == Method::kKernel;
    EXPECT_EQ(fake_cuda::counters().most_blocks, kernels ? 8U : 0U);
    engine_.reset();
    chunks.clear();
    fake_cuda::reset();
  }
}

// Else a link that could carry both ways at once would be used by one at a time.
TEST_F(CudaCopyEngineTest, KernelsOfBothDirectionsShareTheMultiprocessorsAndRunAtOnce) {
  DeviceChunk loaded(64 << 10, 4), stored(64 << 10, 4);
  CudaCopyEngine& engine = make(Method::kKernel, loaded.page());
  loaded.pin(engine);
  stored.pin(engine);
  loaded.fill(1);
  const std::uint64_t root = engine.store(loaded.list(), loaded.slot()).value();
  EXPECT_EQ(fake_cuda::counters().most_blocks, 8U) << "one direction alone";
  EXPECT_EQ(fake_cuda::counters().most_kernels, 1U);
  fake_cuda::delay_ms(2);
  {
    const std::jthread loads([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) EXPECT_TRUE(engine.load(loaded.slot(), root, loaded.list()).ok());
    });
    EXPECT_TRUE(test::eventually([&] {
      EXPECT_TRUE(engine.store(stored.list(), stored.slot()).ok());
      return fake_cuda::counters().most_kernels == 2;
    }));
  }
  EXPECT_EQ(fake_cuda::counters().most_blocks, 8U);
}

// A save that waits for a long step of the model keeps no load waiting, though their kernels share multiprocessors.
TEST_F(CudaCopyEngineTest, ACopyThatWaitsForTheEngineKeepsNoOtherWaiting) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.name);
    DeviceChunk early(8192, 3), late(8192, 3);
    CudaCopyEngine& engine = make(way.method, early.page());
    if (way.pinned) {
      early.pin(engine);
      late.pin(engine);
    }
    early.fill(1);
    const std::uint64_t root = engine.store(early.list(), early.slot()).value();
    void* const stream = fake_cuda::make_stream();
    std::promise<void> step;
    fake_cuda::run(stream, [&] { step.get_future().wait(); });
    const std::shared_ptr<const Fence> behind = engine.fence(stream).value();
    std::future<Result<std::uint64_t>> save =
        std::async(std::launch::async, [&] { return engine.store(late.list(behind.get()), late.slot()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(engine.load(early.slot(), root, early.list()).ok());
    EXPECT_TRUE(engine.store(early.list(), early.slot()).ok());
    EXPECT_EQ(save.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    step.set_value();
    EXPECT_TRUE(save.get().ok());
  }
}

TEST_F(CudaCopyEngineTest, OurStreamsHaveTheLeastPriority) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().streams, 3U) << "one of the copy, and one of the kernels of each direction";
  EXPECT_EQ(fake_cuda::counters().other_streams, 0U);
}

TEST_F(CudaCopyEngineTest, PagesOfNoContextAreServedInTheirDevicesPrimaryOne) {
  std::byte* const page = fake_cuda::allocate(4096, true);
  EXPECT_TRUE(CudaCopyEngine::make(page, {}).ok());
  EXPECT_EQ(*device_of(page), *device_of(fake_cuda::allocate(1)));
}

TEST_F(CudaCopyEngineTest, HostMemoryIsNoDevices) {
  std::byte host{};
  EXPECT_EQ(*device_of(&host), 0U);
  EXPECT_EQ(CudaCopyEngine::make(&host, {}).status().code(), Code::kNotFound);
  fake_cuda::fail("cuPointerGetAttribute", 1, kIllegalAddress);
  EXPECT_FALSE(device_of(&host).ok()) << "nobody may touch what may lie on a device";
}

}  // namespace
}  // namespace larder::copy::cuda
