// KernelLanes alone: what the copy engine cannot bring about at will.
#include "cuda/kernel_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cuda/device_chunk.h"

namespace larder::copy::cuda {
namespace {

using testing::HasSubstr;

class KernelLanesTest : public testing::Test {
 protected:
  ~KernelLanesTest() override { fake_cuda::reset(); }
  std::byte* const page_ = fake_cuda::allocate(1);
  const ContextPtr context_ = DeviceContext::of(page_).value();
};

// Each direction has a half where both are at work, and a kernel on no multiprocessor is none.
TEST_F(KernelLanesTest, LessThanTwoMultiprocessorsAreRefused) {
  for (const unsigned blocks : {0U, 1U}) {
    const Status refused = KernelLanes::make(context_, blocks).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.text(), HasSubstr("2 multiprocessors at least, not " + std::to_string(blocks)));
    CudaOptions options;
    options.measure_ways = {};
    options.kernels = testing_support::fake_kernels();
    options.kernel_blocks = blocks;
    EXPECT_EQ(CudaCopyEngine::make(page_, options).status().code(), Code::kInvalidArgument) << "whoever asked for that may know";
  }
  EXPECT_TRUE(KernelLanes::make(context_, 2).ok());
}

}  // namespace
}  // namespace larder::copy::cuda
