// Which way copies go is measured when an engine is made: within its time, once a process, and on memory of its own.
#include "cuda/way_measuring.h"

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

TEST(WayTable, AGuessIsTheCopyEnginesFromHalfAMebibyteOn) {
  const WayTable guessed;
  for (const Direction direction : {Direction::kStore, Direction::kLoad}) {
    EXPECT_TRUE(guessed.by_kernel(direction, 1));
    EXPECT_TRUE(guessed.by_kernel(direction, (512 << 10) - 1));
    EXPECT_FALSE(guessed.by_kernel(direction, 512 << 10));
    EXPECT_FALSE(guessed.by_kernel(direction, 1 << 30));
  }
  EXPECT_EQ(guessed.in_words(),
            "stores by kernels at 8, 32, 128 KiB, loads by kernels at 8, 32, 128 KiB, all else by the copy engines");
}

TEST(MeasureWays, EachSizeAndDirectionGoesTheFasterWay) {
  const auto kernel_wins = [](Direction direction, std::uint64_t piece_bytes) {
    return piece_bytes <= (direction == Direction::kStore ? 32 << 10 : 8 << 10);
  };
  const Result<WayTable> table = measure_ways(
      [&](Direction direction, bool kernel, std::uint64_t piece_bytes) {
        if (kernel != kernel_wins(direction, piece_bytes)) std::this_thread::sleep_for(20ms);
        return Status();
      },
      kGoOn);
  ASSERT_TRUE(table.ok());
  for (const Direction direction : {Direction::kStore, Direction::kLoad})
    for (const std::uint64_t size : WayTable::kSizes)
      EXPECT_EQ(table->by_kernel(direction, size), kernel_wins(direction, size)) << size;
  EXPECT_TRUE(table->by_kernel(Direction::kStore, 48 << 10)) << "as 32 KiB";
  EXPECT_FALSE(table->by_kernel(Direction::kLoad, 48 << 10));
}

TEST(MeasureWays, OneSlowCopyOfSeveralDoesNotDecide) {
  int count = 0;
  const Result<WayTable> table = measure_ways(
      [&](Direction, bool kernel, std::uint64_t) {
        std::this_thread::sleep_for(kernel && count++ % kTrialRounds != 0 ? 0ms : 20ms);
        return Status();
      },
      kGoOn);
  ASSERT_TRUE(table.ok());
  EXPECT_TRUE(table->by_kernel(Direction::kLoad, 2 << 20)) << "its first copy found cold code";
}

TEST(MeasureWays, AFailedCopyEndsIt) {
  int calls = 0;
  const Result<WayTable> table =
      measure_ways([&](Direction, bool,
                       std::uint64_t) { return ++calls < 4 ? Status() : Status(Code::kUnavailable, "cuLaunchKernel: broken"); },
                   kGoOn);
  EXPECT_EQ(table.status().code(), Code::kUnavailable);
  EXPECT_EQ(calls, 4);
}

class ChosenWaysTest : public testing::Test {
 protected:
  ~ChosenWaysTest() override {
    engine_.reset();
    fake_cuda::reset();
  }
  CudaCopyEngine& make(std::chrono::milliseconds at_most = 60s) {
    CudaOptions options;
    options.kernels = testing_support::fake_kernels();
    options.measure_ways = at_most;
    options.measure_bytes = 1;
    options.known = &known_;
    options.log = said_.log();
    engine_ = CudaCopyEngine::make(page_, options).value();
    return *engine_;
  }
  // It copies, whatever was chosen.
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

TEST_F(ChosenWaysTest, ADeviceOfSlowKernelsStoresByItsCopyEngines) {
  fake_cuda::delay_ms(30, "kernel");
  const CudaCopyEngine& engine = make();
  for (const std::uint64_t size : WayTable::kSizes) EXPECT_FALSE(engine.ways().by_kernel(Direction::kStore, size)) << size;
  EXPECT_THAT(said_.lines(),
              ElementsAre(testing::AllOf(HasSubstr("info GPU copies, measured in "), HasSubstr("stores by kernels at none"))));
  fake_cuda::delay_ms(0);
  expect_it_works();
}

TEST_F(ChosenWaysTest, MeasuredIsOnceAProcessAndTheMemoryForItGoesBack) {
  make();
  const WayTable first = engine_->ways();
  EXPECT_GT(fake_cuda::counters().kernels, 0U);
  EXPECT_EQ(fake_cuda::counters().device_bytes, 0U);
  engine_.reset();
  EXPECT_EQ(fake_cuda::counters().pinned_bytes, 0U);
  EXPECT_EQ(fake_cuda::counters().streams, 0U);
  const std::uint64_t kernels = fake_cuda::counters().kernels;
  said_.clear();
  make();
  EXPECT_EQ(fake_cuda::counters().kernels, kernels);
  EXPECT_EQ(engine_->ways().in_words(), first.in_words());
  EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("info GPU copies, as measured before in this process: stores by kernels")));
}

// The device hangs, and nothing but the engine's own end waits for it.
TEST_F(ChosenWaysTest, WhoStartsAnEngineWaitsNoLongerThanTold) {
  std::promise<void> go_on;
  fake_cuda::then("kernel", [&] { go_on.get_future().wait(); });
  make(50ms);
  EXPECT_EQ(engine_->ways().in_words(), WayTable().in_words());
  EXPECT_THAT(
      said_.lines(),
      ElementsAre(HasSubstr("warning GPU copies could not be measured (not done within 50 ms), a guess stands: stores by")));
  go_on.set_value();
  expect_it_works();
  engine_.reset();
  EXPECT_EQ(fake_cuda::counters().device_bytes, 0U);
  EXPECT_EQ(fake_cuda::counters().streams, 0U);
  said_.clear();
  make();
  EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("info GPU copies, measured in "))) << "what came late was not kept";
}

TEST_F(ChosenWaysTest, WhereItFailsTheGuessStandsAndCopiesGoOn) {
  for (const char* function : {"cuMemAlloc", "cuMemHostAlloc", "cuLaunchKernel", "cuMemcpyBatchAsync", "cuCtxPushCurrent"}) {
    SCOPED_TRACE(function);
    said_.clear();
    // The first two times are the kernels' and their lanes'.
    fake_cuda::fail(function, function == std::string("cuCtxPushCurrent") ? 3 : 1, kOutOfMemory);
    make();
    EXPECT_EQ(engine_->ways().in_words(), WayTable().in_words());
    EXPECT_THAT(said_.lines(), ElementsAre(HasSubstr("warning GPU copies could not be measured (")));
    EXPECT_EQ(fake_cuda::counters().device_bytes, 0U);
    expect_it_works();
    engine_.reset();
    fake_cuda::forget_faults();
  }
}

TEST_F(ChosenWaysTest, WhoNamesAWayMeasuresNothing) {
  CudaOptions options;
  options.kernels = testing_support::fake_kernels();
  options.method = Method::kBatch;
  engine_ = CudaCopyEngine::make(page_, options).value();
  EXPECT_EQ(fake_cuda::counters().kernels + fake_cuda::counters().batches, 0U);
}

}  // namespace
}  // namespace larder::copy::cuda
