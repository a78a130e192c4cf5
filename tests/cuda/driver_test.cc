// A process that has not loaded CUDA: Larder does not look for it, and all memory is host memory.
// Linked without the fake driver.
#include "cuda/driver.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

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

// Machine code is an ELF file and PTX a text. A build without NVIDIA's compiler has neither.
TEST(DriverTest, TheKernelsAreBuiltIn) {
  if (built_in_kernels().empty())
    GTEST_SKIP() << "built without NVIDIA's compiler (make deps-cuda)";
  const KernelImages images = built_in_kernels();
  ASSERT_EQ(images.size(), 5U);
  for (const std::span<const std::byte> image : images) EXPECT_GT(image.size(), 50'000U);
  for (const std::span<const std::byte> image : images.first(4))
    EXPECT_EQ(std::memcmp(image.data(), "\177ELF", 4), 0);
  const std::string_view ptx(reinterpret_cast<const char*>(images.back().data()),
                             images.back().size());
  EXPECT_NE(ptx.find("\n.target sm_80\n"), std::string_view::npos);
  EXPECT_EQ(ptx.back(), '\0');
}

}  // namespace
}  // namespace larder::copy::cuda
