// The prefaulter over memory of the test: all memory, once, in an order that never grants a missing
// page.
#include "sidecar/memory/prefaulter.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>

#include "shim/base/fd.h"

namespace larder::memory {
namespace {

Mapping fresh(std::size_t bytes) {
  const Fd fd(::memfd_create("touched", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  Result<Mapping> mapping = Mapping::map_shared(fd, bytes, PROT_READ | PROT_WRITE, "touched");
  EXPECT_TRUE(mapping.ok());
  return std::move(*mapping);
}

std::size_t present_pages(const Mapping& mapping, std::size_t bytes) {
  std::vector<unsigned char> pages((mapping.size() + 4095) / 4096);
  EXPECT_EQ(::mincore(mapping.data(), mapping.size(), pages.data()), 0);
  std::size_t present = 0;
  for (std::size_t i = 0; i < bytes / 4096; ++i) present += pages[i] & 1U;
  return present;
}

// Pages that count as touched are there: asked at once and at the end.
void touch_and_check(std::size_t bytes, std::size_t page_bytes) {
  const Mapping mapping = fresh(bytes);
  const Prefaulter toucher({mapping.data(), mapping.size()}, page_bytes);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (toucher.touched_bytes() != bytes && std::chrono::steady_clock::now() < end) {
    const std::uint64_t touched = toucher.touched_bytes();
    ASSERT_EQ(present_pages(mapping, touched), touched / 4096);
  }
  EXPECT_EQ(toucher.touched_bytes(), bytes);
  EXPECT_EQ(toucher.problem(), 0);
}

TEST(PrefaulterTest, TouchesEveryPageAndCountsPresentPages) {
  touch_and_check(100U << 20, 4096);
}

TEST(PrefaulterTest, HandlesSmallRegionsAndLargePages) {
  touch_and_check(4096, 4096);
  touch_and_check(96U << 20, 64U << 20);
}

TEST(PrefaulterTest, StopsEarlyOnDestruction) {
  const Mapping mapping = fresh(1ULL << 30);
  { const Prefaulter toucher({mapping.data(), mapping.size()}, 4096); }
  EXPECT_LT(present_pages(mapping, mapping.size()), mapping.size() / 4096);
}

// A page that is not available ends the work, and no page behind is granted.
TEST(PrefaulterTest, UnavailablePageEndsTheWork) {
  const Mapping mapping = fresh(64U << 20);
  ASSERT_EQ(::munmap(mapping.data() + (32U << 20), 4096), 0);
  const Prefaulter toucher({mapping.data(), mapping.size()}, 4096);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (toucher.problem() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_NE(toucher.problem(), 0);
  EXPECT_LE(toucher.touched_bytes(), 32U << 20);
}

}  // namespace
}  // namespace larder::memory
