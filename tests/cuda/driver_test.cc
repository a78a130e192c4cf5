// A process that has not loaded CUDA: nothing is looked for, and all memory is the host's. Linked without the fake driver.
#include "cuda/driver.h"

#include <gtest/gtest.h>

#include "cuda/copy_engine.h"
#include "cuda/piece_kernels.h"

namespace larder::copy::cuda {
namespace {

TEST(DriverTest, AProcessWithoutCudaHasNoDevice) {
  EXPECT_EQ(Driver::find().status().code(), Code::kUnavailable);
  int page = 0;
  EXPECT_EQ(*device_of(&page), 0U);
  EXPECT_EQ(device_copy_engine(&page, {}).status().code(), Code::kNotFound);
}

// A fat binary begins with this number; without nvcc there is none.
TEST(DriverTest, TheKernelsAreBuiltIn) {
  if (built_in_kernels().empty()) GTEST_SKIP() << "built without NVIDIA's compiler (make deps-cuda)";
  EXPECT_EQ(*reinterpret_cast<const std::uint32_t*>(built_in_kernels().data()), 0xba55ed50U);
  EXPECT_GT(built_in_kernels().size(), 100'000U) << "of all processors";
}

}  // namespace
}  // namespace larder::copy::cuda
