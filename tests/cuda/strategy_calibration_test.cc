// The measurement of the ways at the start of an engine: in bounded time, once a process, and on
// its own memory.
#include "cuda/strategy_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/cuda/device_chunk.h"
#include "tests/cuda/said.h"

namespace larder::copy::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

const std::atomic<bool> kGoOn{false};

TEST(StrategyTable, DefaultUsesKernelsForSmallLoadsOnly) {
  const StrategyTable guessed;
  EXPECT_FALSE(guessed.by_kernel(Direction::kStore, 1));
  EXPECT_TRUE(guessed.by_kernel(Direction::kLoad, (32 << 10) - 1));
  EXPECT_FALSE(guessed.by_kernel(Direction::kLoad, 32 << 10));
  EXPECT_EQ(guessed.in_use().in_words(),
            "stores by the copy engines, loads below 32 KiB a piece by kernels");
}

// Measures with the rates of trial(), in bytes a second.
StrategyTable measured(
    const std::function<double(Direction, bool kernel, std::uint64_t piece_bytes)>& trial) {
  return calibrate_strategies(
             [&](Direction direction, bool kernel, std::uint64_t bytes) {
               return Result<double>(trial(direction, kernel, bytes));
             },
             kGoOn)
      .value();
}

// A measurement on an idle device does not show the cost of kernels for the model.
TEST(MeasureStrategies, LargePiecesNeverUseKernels) {
  const StrategyTable table =
      measured([](Direction, bool kernel, std::uint64_t) { return kernel ? 1e12 : 1e9; });
  EXPECT_TRUE(table.by_kernel(Direction::kLoad, (64 << 10) - 1));
  EXPECT_FALSE(table.by_kernel(Direction::kLoad, 64 << 10));
  EXPECT_TRUE(table.by_kernel(Direction::kStore, (16 << 10) - 1));
  EXPECT_FALSE(table.by_kernel(Direction::kStore, 16 << 10));
}

TEST(MeasureStrategies, SmallPiecesUseKernelsWhereMuchFaster) {
  const StrategyTable table =
      measured([](Direction direction, bool kernel, std::uint64_t piece_bytes) {
        const bool worth_it = direction == Direction::kLoad && piece_bytes <= 16 << 10;
        return kernel ? (worth_it ? 1.3 : 1.29) : 1.0;
      });
  EXPECT_EQ(table.below(Direction::kStore), 0U);
  EXPECT_EQ(table.below(Direction::kLoad), 32U << 10);
}

TEST(MeasureStrategies, SingleSlowCopyIsIgnored) {
  int count = 0;
  const StrategyTable table = measured([&](Direction, bool kernel, std::uint64_t) {
    return kernel && count++ % kTrialRounds != 0 ? 10.0 : 1.0;
  });
  EXPECT_EQ(table.below(Direction::kLoad), 64U << 10) << "its first copy found cold code";
}

TEST(MeasureStrategies, FailedCopyEndsTheMeasurement) {
  int calls = 0;
  const Result<StrategyTable> table = calibrate_strategies(
      [&](Direction, bool, std::uint64_t) -> Result<double> {
        if (++calls < 4) return 1.0;
        return Status(Code::kUnavailable, "cuLaunchKernel: broken");
      },
      kGoOn);
  EXPECT_EQ(table.status().code(), Code::kUnavailable);
  EXPECT_EQ(calls, 4);
}

TEST(SteadyRate, SeveralThreadsCopyAndAFailureIsReported) {
  // Each copy takes 1 ms on the test's own clock. On a busy machine a thread may start after the
  // end by the machine's clock.
  std::atomic<int> copies{0}, of_thread[3]{};
  const Result<double> rate = steady_rate(
      3, 1000, kGoOn,
      [&](std::size_t number) {
        ++of_thread[number];
        ++copies;
        return Status();
      },
      [&] { return std::chrono::steady_clock::time_point(copies.load() * 1ms); });
  ASSERT_TRUE(rate.ok());
  EXPECT_GE(copies, kTrialTime / 1ms) << "again and again";
  EXPECT_LE(copies, kTrialTime / 1ms + 2) << "and not after its time, but for each thread's first";
  for (const std::atomic<int>& one : of_thread) EXPECT_GE(one, 1);
  EXPECT_DOUBLE_EQ(*rate, 1000 / 0.001);
  const Status failed = steady_rate(2, 1, kGoOn, [](std::size_t number) {
                          return number == 1 ? Status(Code::kUnavailable, "no") : Status();
                        }).status();
  EXPECT_EQ(failed.code(), Code::kUnavailable);
  const Status thrown =
      steady_rate(1, 1, kGoOn, [](std::size_t) -> Status { throw std::bad_alloc(); }).status();
  EXPECT_EQ(thrown.code(), Code::kResourceExhausted);
}

TEST(KnownWays, KeepsTheFirstContextsOfAProcess) {
  KnownWays known;
  char contexts[KnownWays::kMost + 1] = {};
  for (const char& context : contexts) known.keep(&context, 8, {});
  EXPECT_TRUE(known.find(&contexts[KnownWays::kMost - 1], 8));
  EXPECT_FALSE(known.find(&contexts[KnownWays::kMost], 8)) << "measured again";
  EXPECT_FALSE(known.find(&contexts[0], 9));
}

class ChosenStrategiesTest : public testing::Test {
 protected:
  ~ChosenStrategiesTest() override {
    engine_.reset();
    fake_cuda::reset();
  }
  CudaCopyEngine& make(std::chrono::milliseconds at_most = 60s) {
    CudaOptions options;
    options.kernels = testing_support::fake_kernels();
    options.calibrate_strategies = at_most;
    options.measure_bytes = 1;
    options.known = &known_;
    options.log = said_.log();
    engine_ = CudaCopyEngine::make(page_, options).value();
    return *engine_;
  }
  // Copies work with either choice.
  void expect_it_works() {
    testing_support::DeviceChunk chunk(8192, 3);
    chunk.pin(*engine_);
    chunk.fill(1);
    const std::uint64_t root = engine_->store(chunk.list(), chunk.slot()).value();
    chunk.fill(2);
    EXPECT_TRUE(engine_->load(chunk.slot(), root, chunk.list()).ok());
    EXPECT_TRUE(chunk.holds(1));
  }
  std::byte* const page_ = fake_cuda::allocate(1);
  KnownWays known_;
  testing_support::Said said_;
  std::unique_ptr<CudaCopyEngine> engine_;
};

TEST_F(ChosenStrategiesTest, DeviceWithSlowKernelsStoresByCopyEngines) {
  fake_cuda::delay_ms(30, "kernel");
  const CudaCopyEngine& engine = make();
  EXPECT_EQ(engine.strategies().below(Direction::kStore), 0U);
  EXPECT_THAT(said_.lines(), ElementsAre(testing::AllOf(HasSubstr("info GPU copies, measured in "),
                                                        HasSubstr("stores by the copy engines"))));
  fake_cuda::delay_ms(0);
  expect_it_works();
}

// For benchmarks, and told in larderd's status.
TEST_F(ChosenStrategiesTest, ConfiguredStrategyIsReported) {
  testing_support::DeviceChunk chunk(8192, 3);
  CudaOptions options;
  options.kernels = testing_support::fake_kernels();
  options.method = Method::kBatch;
  EXPECT_EQ(CudaCopyEngine::make(chunk.page(), options).value()->strategy().in_words(),
            "stores by the copy engines, loads by the copy engines");
  options.method = Method::kKernel;
  EXPECT_EQ(CudaCopyEngine::make(chunk.page(), options).value()->strategy().in_words(),
            "stores below 16383 KiB a piece by kernels, loads below 16383 KiB a piece by kernels");
}

TEST_F(ChosenStrategiesTest, MeasuresOncePerProcessAndFreesItsMemory) {
  make();
  const StrategyTable first = engine_->strategies();
  EXPECT_GT(fake_cuda::counters().kernels, 0U);
  EXPECT_EQ(fake_cuda::counters().device_bytes, 0U);
  engine_.reset();
  EXPECT_EQ(fake_cuda::counters().pinned_bytes, 0U);
  EXPECT_EQ(fake_cuda::counters().streams, 0U);
  const std::uint64_t kernels = fake_cuda::counters().kernels;
  said_.clear();
  make();
  EXPECT_EQ(fake_cuda::counters().kernels, kernels);
  EXPECT_EQ(engine_->strategies().in_use().in_words(), first.in_use().in_words());
  EXPECT_THAT(
      said_.lines(),
      ElementsAre(HasSubstr("info GPU copies, as measured before in this process: stores ")));
}

// The device hangs. Only the engine's destructor waits for the measurement.
TEST_F(ChosenStrategiesTest, EngineStartWaitsNoLongerThanConfigured) {
  std::promise<void> go_on;
  fake_cuda::then("kernel", [&] { go_on.get_future().wait(); });
  make(50ms);
  EXPECT_EQ(engine_->strategies().in_use().in_words(), StrategyTable().in_use().in_words());
  EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("warning GPU copies could not be measured (not "
                                                   "done within 50 ms), a guess stands: stores ")));
  go_on.set_value();
  expect_it_works();
  engine_.reset();
  EXPECT_EQ(fake_cuda::counters().device_bytes, 0U);
  EXPECT_EQ(fake_cuda::counters().streams, 0U);
  said_.clear();
  make();
  EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("info GPU copies, measured in ")))
      << "the late measurement was not kept";
}

// The measurement goes on after its time, and its first copy hangs. The order of the engine's
// copies does not include the measurement.
TEST_F(ChosenStrategiesTest, EngineCopiesDoNotQueueBehindAMeasurement) {
  std::promise<void> go_on;
  fake_cuda::then("copy", [&] { go_on.get_future().wait(); });
  make(50ms);
  testing_support::DeviceChunk chunk(8192, 3);  // the release waits for all work
  chunk.pin(*engine_);
  std::future<bool> works = std::async(std::launch::async, [&] {
    const Result<std::uint64_t> root = engine_->store(chunk.list(), chunk.slot());
    return root.ok() && engine_->load(chunk.slot(), *root, chunk.list()).ok();
  });
  EXPECT_EQ(works.wait_for(20s), std::future_status::ready);
  go_on.set_value();
  EXPECT_TRUE(works.get());
}

TEST_F(ChosenStrategiesTest, FailedMeasurementKeepsTheDefaultAndCopiesContinue) {
  for (const char* function : {"cuMemAlloc", "cuMemHostAlloc", "cuLaunchKernel",
                               "cuMemcpyBatchAsync", "cuCtxPushCurrent"}) {
    SCOPED_TRACE(function);
    said_.clear();
    // The first four calls are for the lanes of the copies, the number of multiprocessors, the
    // kernels and their lanes.
    fake_cuda::fail(function, function == std::string("cuCtxPushCurrent") ? 5 : 1, kOutOfMemory);
    make();
    EXPECT_EQ(engine_->strategies().in_use().in_words(), StrategyTable().in_use().in_words());
    EXPECT_THAT(said_.lines(),
                ElementsAre(HasSubstr("warning GPU copies could not be measured (")));
    EXPECT_EQ(fake_cuda::counters().device_bytes, 0U);
    expect_it_works();
    engine_.reset();
    fake_cuda::forget_faults();
  }
}

TEST_F(ChosenStrategiesTest, ConfiguredStrategyDisablesMeasurement) {
  CudaOptions options;
  options.kernels = testing_support::fake_kernels();
  options.method = Method::kBatch;
  engine_ = CudaCopyEngine::make(page_, options).value();
  EXPECT_EQ(fake_cuda::counters().kernels + fake_cuda::counters().batches, 0U);
}

}  // namespace
}  // namespace larder::copy::cuda
