// CUDA's engine with several threads that copy at once: their multiprocessors together, and their
// waits for each other.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/cuda/cuda_engine_fixture.h"

namespace larder::copy::cuda {
namespace {

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
          if (root.ok() && engine.load(chunk.slot(), *root, chunk.list()).ok() &&
              chunk.holds(i * 100 + round))
            ++right;
        }
      });
  }
  EXPECT_EQ(right, kThreads * 20);
}

// The engine's own small copies, the tokens and block tables of a step, wait behind the ready
// copies.
TEST_F(CudaCopyEngineTest, BytesReadyToCopyAreBoundedOverAllThreads) {
  constexpr int kThreads = 4;
  for (const Way& strategy :
       {Way{"batch", Method::kBatch, true}, Way{"batch staged", Method::kBatch, false}}) {
    SCOPED_TRACE(strategy.name);
    std::vector<std::unique_ptr<DeviceChunk>> chunks;
    for (const std::size_t piece_bytes : {6UL << 20, 1UL << 20, 64UL << 10, 5UL << 20})
      chunks.push_back(std::make_unique<DeviceChunk>(piece_bytes, (12UL << 20) / piece_bytes));
    CudaCopyEngine& engine = make(strategy.method, chunks[0]->page());
    if (strategy.pinned)
      for (const auto& chunk : chunks) chunk->pin(engine);
    fake_cuda::cost("copy", 0, 200);
    std::atomic<int> right{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
          DeviceChunk& chunk = *chunks[static_cast<std::size_t>(i)];
          chunk.fill(i);
          const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
          chunk.fill(7777);
          if (root.ok() && engine.load(chunk.slot(), *root, chunk.list()).ok() && chunk.holds(i))
            ++right;
        });
    }
    EXPECT_EQ(right, kThreads);
    EXPECT_EQ(fake_cuda::counters().most_home_bytes, CopyLanes::kBatchBytes);
    EXPECT_EQ(fake_cuda::counters().most_away_bytes, CopyLanes::kBatchBytes);
    engine_.reset();
    chunks.clear();
    fake_cuda::reset();
  }
}

// The digests of one store take the multiprocessors, and the copies of another the link.
TEST_F(CudaCopyEngineTest, StoreWaitingForDigestsBlocksNoOtherCopy) {
  DeviceChunk first(1 << 20, 9), second(64 << 10, 4);
  CudaCopyEngine& engine = make(Method::kBatch, first.page());
  first.pin(engine);
  second.pin(engine);
  std::promise<void> digested, copied;
  fake_cuda::then("kernel", [&] { digested.get_future().wait(); });
  std::future<bool> waits =
      std::async(std::launch::async, [&] { return engine.store(first.list(), first.slot()).ok(); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  fake_cuda::then("copy", [&] { copied.set_value(); });
  std::future<bool> meanwhile = std::async(
      std::launch::async, [&] { return engine.store(second.list(), second.slot()).ok(); });
  EXPECT_EQ(copied.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  digested.set_value();
  EXPECT_TRUE(waits.get() && meanwhile.get());
}

// A store that waits for its step does not hold the turn.
TEST_F(CudaCopyEngineTest, StoreBehindARunningStepBlocksNoOtherCopy) {
  for (const KernelImages& kernels :
       {KernelImages(testing_support::fake_kernels()), KernelImages()}) {
    DeviceChunk late(64 << 10, 4), other(64 << 10, 4);
    CudaOptions options = the_options();
    options.method = Method::kBatch;
    options.kernels = kernels;
    engine_ = CudaCopyEngine::make(late.page(), options).value();
    std::promise<void> step;
    void* const stream = fake_cuda::make_stream();
    fake_cuda::run(stream, [ended = step.get_future().share()] { ended.wait(); });
    const std::shared_ptr<const Fence> fence = engine_->fence(stream).value();
    std::future<bool> behind = std::async(std::launch::async, [&] {
      return engine_->store(late.list(fence.get()), late.slot()).ok();
    });
    EXPECT_EQ(behind.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    std::future<bool> meanwhile = std::async(
        std::launch::async, [&] { return engine_->store(other.list(), other.slot()).ok(); });
    EXPECT_EQ(meanwhile.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    step.set_value();
    EXPECT_TRUE(behind.get() && meanwhile.get());
  }
}

// The model's share of multiprocessors is independent of the number of copying threads and of the
// way.
TEST_F(CudaCopyEngineTest, MultiprocessorsAreBoundedOverAllKernels) {
  constexpr int kThreads = 4;
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    std::vector<std::unique_ptr<DeviceChunk>> chunks;
    for (int i = 0; i < kThreads; ++i) chunks.push_back(std::make_unique<DeviceChunk>(64 << 10, 4));
    CudaCopyEngine& engine = make(strategy.method, chunks[0]->page());
    if (strategy.pinned)
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
            if (root.ok() && engine.load(chunk->slot(), *root, chunk->list()).ok() &&
                chunk->holds(round))
              ++right;
          }
        });
    }
    EXPECT_EQ(right, kThreads * 6);
    const bool kernels = strategy.pinned || strategy.method == Method::kKernel;
    EXPECT_EQ(fake_cuda::counters().most_blocks, kernels ? 8U : 0U);
    engine_.reset();
    chunks.clear();
    fake_cuda::reset();
  }
}

// A small GPU, or a slice of one.
TEST_F(CudaCopyEngineTest, KernelsOfBothDirectionsAlternateOnOneMultiprocessor) {
  fake_cuda::have(16);
  DeviceChunk loaded(64 << 10, 4), stored(64 << 10, 4);
  CudaCopyEngine& engine = make(Method::kKernel, loaded.page());
  loaded.pin(engine);
  stored.pin(engine);
  loaded.fill(1);
  const std::uint64_t root = engine.store(loaded.list(), loaded.slot()).value();
  fake_cuda::delay_ms(1);
  {
    const std::jthread loads([&] {
      for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(engine.load(loaded.slot(), root, loaded.list()).ok());
    });
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(engine.store(stored.list(), stored.slot()).ok());
  }
  EXPECT_TRUE(loaded.holds(1));
  EXPECT_EQ(fake_cuda::counters().most_blocks, 1U);
  EXPECT_EQ(fake_cuda::counters().most_kernels, 1U);
}

// Otherwise a link with capacity in both directions would carry one at a time.
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
      while (!stop.stop_requested())
        EXPECT_TRUE(engine.load(loaded.slot(), root, loaded.list()).ok());
    });
    EXPECT_TRUE(test::eventually([&] {
      EXPECT_TRUE(engine.store(stored.list(), stored.slot()).ok());
      return fake_cuda::counters().most_kernels == 2;
    }));
  }
  EXPECT_EQ(fake_cuda::counters().most_blocks, 8U);
}

// A save that waits for a long step of the model delays no load, although their kernels share
// multiprocessors.
TEST_F(CudaCopyEngineTest, CopyWaitingForTheEngineBlocksNoOther) {
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    DeviceChunk early(8192, 3), late(8192, 3);
    CudaCopyEngine& engine = make(strategy.method, early.page());
    if (strategy.pinned) {
      early.pin(engine);
      late.pin(engine);
    }
    early.fill(1);
    const std::uint64_t root = engine.store(early.list(), early.slot()).value();
    void* const stream = fake_cuda::make_stream();
    std::promise<void> step;
    fake_cuda::run(stream, [&] { step.get_future().wait(); });
    const std::shared_ptr<const Fence> behind = engine.fence(stream).value();
    std::future<Result<std::uint64_t>> save = std::async(
        std::launch::async, [&] { return engine.store(late.list(behind.get()), late.slot()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(engine.load(early.slot(), root, early.list()).ok());
    EXPECT_TRUE(engine.store(early.list(), early.slot()).ok());
    EXPECT_EQ(save.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    step.set_value();
    EXPECT_TRUE(save.get().ok());
  }
}

}  // namespace
}  // namespace larder::copy::cuda
