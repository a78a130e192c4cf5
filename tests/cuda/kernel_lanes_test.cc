// Tests of KernelLanes alone, for cases that the copy engine cannot force.
#include "cuda/kernel_lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/cuda/device_chunk.h"

namespace larder::copy::cuda {
namespace {

class KernelLanesTest : public testing::Test {
 protected:
  ~KernelLanesTest() override { fake_cuda::reset(); }
  std::byte* const page_ = fake_cuda::allocate(1);
  const ContextPtr context_ = DeviceContext::of(page_).value();
};

// The other direction waits for the event behind a kernel with all multiprocessors. Here the event
// fails.
TEST_F(KernelLanesTest, KernelWithoutEventEndsBeforeTheNextBegins) {
  for (const ResultCode code : {kFirstCaptureError, kIllegalAddress}) {
    const std::unique_ptr<KernelLanes> lanes = KernelLanes::make(context_, 8).value();
    const ContextScope scope(context_->driver(), context_->handle());
    std::atomic<bool> ended{false}, at_once{false};
    fake_cuda::fail("cuEventRecord", 1, code);
    if (is_capture_error(code)) fake_cuda::fail("cuStreamSynchronize", 1, code, false, 3);
    const Status first = lanes->launch(Direction::kStore, [&](unsigned blocks, Handle stream) {
      EXPECT_EQ(blocks, 8U);
      fake_cuda::run(stream, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ended = true;
      });
      return Status();
    });
    EXPECT_FALSE(first.ok());
    const Status second = lanes->launch(Direction::kLoad, [&](unsigned, Handle stream) {
      fake_cuda::run(stream, [&] { at_once = !ended; });
      return Status();
    });
    EXPECT_TRUE(second.ok()) << second.to_string();
    for (const Direction direction : {Direction::kStore, Direction::kLoad}) {
      EXPECT_EQ(context_->driver()->stream_synchronize(lanes->stream(direction)), kSuccess);
      lanes->ended(direction, 1);
    }
    EXPECT_FALSE(at_once) << "both together have more multiprocessors than there are for them";
  }
}

}  // namespace
}  // namespace larder::copy::cuda
