// Fences: waits of host threads, and waits that are skipped.
#include "cuda/fences.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/cuda/device_chunk.h"

namespace larder::copy::cuda {
namespace {

using testing_support::DeviceChunk;

class FencesTest : public testing::Test {
 protected:
  FencesTest() {
    CudaOptions options;
    options.method = Method::kKernel;
    options.calibrate_strategies = {};
    options.kernels = testing_support::fake_kernels();
    engine_ = CudaCopyEngine::make(chunk_.page(), options).value();
  }
  ~FencesTest() override {
    engine_.reset();
    fake_cuda::reset();
  }
  // Behind a step of the engine that takes a moment.
  std::shared_ptr<const Fence> behind_a_step() {
    void* const stream = fake_cuda::make_stream();
    fake_cuda::run(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
    return engine_->fence(stream).value();
  }
  // From now on CUDA refuses further waits for a fence.
  static void refuse_waits() {
    for (const char* function : {"cuEventSynchronize", "cuStreamWaitEvent"})
      fake_cuda::fail(function, 1, kIllegalAddress);
  }

  DeviceChunk chunk_{4096, 2};
  std::unique_ptr<CudaCopyEngine> engine_;
};

// A step of a model takes many milliseconds, and the engine needs the processor meanwhile.
TEST_F(FencesTest, HostWaitDoesNotSpin) {
  const std::shared_ptr<const Fence> fence = behind_a_step();
  EXPECT_TRUE(fence->wait().ok());
  EXPECT_EQ(fake_cuda::counters().spinning_waits, 0U);
}

TEST_F(FencesTest, CopySkipsFenceAwaitedByTheHost) {
  const std::shared_ptr<const Fence> fence = behind_a_step();
  ASSERT_TRUE(fence->wait().ok());
  const std::uint64_t before = fake_cuda::counters().host_waits;
  EXPECT_TRUE(engine_->store(chunk_.list(fence.get()), chunk_.slot()).ok());
  EXPECT_EQ(fake_cuda::counters().host_waits, before + 1) << "for the end of the store alone";
  refuse_waits();
  EXPECT_TRUE(fence->wait().ok()) << "nor the host again";
}

TEST_F(FencesTest, HostSkipsFenceAwaitedByACopy) {
  const std::shared_ptr<const Fence> fence = behind_a_step();
  ASSERT_TRUE(engine_->store(chunk_.list(fence.get()), chunk_.slot()).ok());
  refuse_waits();
  EXPECT_TRUE(fence->wait().ok());
}

TEST_F(FencesTest, FailedWaitLeavesTheFenceUndecided) {
  const std::shared_ptr<const Fence> fence = behind_a_step();
  fake_cuda::fail("cuEventSynchronize", 1, kFirstCaptureError);
  EXPECT_EQ(fence->wait().code(), Code::kFailedPrecondition);
  const std::uint64_t before = fake_cuda::counters().host_waits;
  EXPECT_TRUE(fence->wait().ok());
  EXPECT_EQ(fake_cuda::counters().host_waits, before + 1) << "CUDA is asked again";
}

TEST_F(FencesTest, FreeEventsAreReusedUpToTheLimit) {
  void* const stream = fake_cuda::make_stream();
  const auto hold = [&](std::size_t count) {
    std::vector<std::shared_ptr<const Fence>> fences;
    while (fences.size() < count) fences.push_back(engine_->fence(stream).value());
    return fake_cuda::counters().events;
  };
  const std::uint64_t before = hold(0);
  EXPECT_EQ(hold(Fences::kMaxFree + 8), before + Fences::kMaxFree + 8);
  EXPECT_EQ(hold(0), before + Fences::kMaxFree);
  EXPECT_EQ(hold(1), before + Fences::kMaxFree);
  engine_.reset();
  EXPECT_EQ(fake_cuda::counters().events, 0U);
}

}  // namespace
}  // namespace larder::copy::cuda
