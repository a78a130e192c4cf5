// The arena is registered slice by slice, as far as its pages are present. Copies work before,
// during and without the registration.
#include "cuda/pinning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cuda/device_chunk.h"
#include "tests/cuda/said.h"

namespace larder::copy::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kSpan = 64 << 10;

class PinningTest : public testing::Test {
 protected:
  PinningTest() : page_(fake_cuda::allocate(1)), context_(DeviceContext::of(page_).value()) {}
  ~PinningTest() override {
    context_.reset();
    fake_cuda::reset();
  }
  static RegistrationOptions slices_of(std::size_t bytes) {
    RegistrationOptions options;
    options.slice_bytes = bytes;
    return options;
  }
  std::unique_ptr<Pinning> pin() {
    return std::make_unique<Pinning>(context_, std::span(memory_), said_.log(), slices_of(kSpan));
  }
  std::span<const std::byte> bytes(std::size_t start, std::size_t count) {
    return std::span(memory_).subspan(start, count);
  }

  std::byte* const page_;
  ContextPtr context_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * kSpan + 100);
  testing_support::Said said_;
};

TEST_F(PinningTest, OnlyPresentPagesAreRegistered) {
  const std::unique_ptr<Pinning> pinning = pin();
  pinning->present(2 * kSpan - 1);
  ASSERT_TRUE(test::eventually([&] { return pinning->ready_bytes() == kSpan; }));
  EXPECT_EQ(fake_cuda::counters().registered_bytes, kSpan);
  EXPECT_FALSE(pinning->device(bytes(0, kSpan)).empty());
  EXPECT_TRUE(pinning->device(bytes(kSpan, 1)).empty());
  pinning->present(memory_.size());
  ASSERT_TRUE(
      test::eventually([&] { return fake_cuda::counters().registered_bytes == memory_.size(); }));
  ASSERT_TRUE(test::eventually([&] { return !pinning->device(bytes(2 * kSpan, 100)).empty(); }))
      << "the rest of a span";
  EXPECT_EQ(pinning->device(bytes(kSpan + 5, 10)).in_one_piece(),
            pinning->device(bytes(kSpan, 1)).in_one_piece() + 5);
  std::byte other{};
  EXPECT_TRUE(pinning->device({&other, 1}).empty());
}

TEST_F(PinningTest, DestructorUnregistersTheMemory) {
  std::unique_ptr<Pinning> pinning = pin();
  pinning->present(memory_.size());
  ASSERT_TRUE(test::eventually([&] { return !pinning->device(bytes(2 * kSpan, 100)).empty(); }));
  pinning.reset();
  EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U);
}

// covers F-033
TEST_F(PinningTest, RefusalIsLoggedOnceAndKeepsEarlierRegistrations) {
  const std::unique_ptr<Pinning> pinning = pin();
  fake_cuda::fail("cuMemHostRegister", 2, kOutOfMemory);
  pinning->present(memory_.size());
  ASSERT_TRUE(test::eventually([&] { return pinning->gave_up(); }));
  EXPECT_FALSE(pinning->device(bytes(0, 10)).empty());
  EXPECT_TRUE(pinning->device(bytes(kSpan, 10)).empty());
  ASSERT_TRUE(test::eventually([&] { return !said_.lines().empty(); }));
  EXPECT_THAT(said_.lines(),
              ElementsAre(HasSubstr("warning the arena cannot be registered with CUDA")));
}

TEST_F(PinningTest, EngineCopiesFromUnregisteredSlot) {
  testing_support::DeviceChunk chunk(8192, 2);
  CudaOptions options;
  options.kernels = testing_support::fake_kernels();
  options.calibrate_strategies = {};
  const std::unique_ptr<CudaCopyEngine> engine = CudaCopyEngine::make(page_, options).value();
  const std::unique_ptr<ReadyMemory> ready = engine->make_ready(chunk.slot());
  chunk.fill(1);
  const std::uint64_t root = engine->store(chunk.list(), chunk.slot()).value();
  ready->present(chunk.slot().size());
  ASSERT_TRUE(test::eventually(
      [&] { return fake_cuda::counters().registered_bytes == chunk.slot().size(); }));
  chunk.fill(2);
  ASSERT_TRUE(engine->load(chunk.slot(), root, chunk.list()).ok());
  EXPECT_TRUE(chunk.holds(1));
}

}  // namespace
}  // namespace larder::copy::cuda
