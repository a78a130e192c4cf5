#include "sidecar/ipc/huge_page_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace larder::ipc {
namespace {

TEST(HugePageMemory, IsAlignedZeroAndGivenBackWhole) {
  constexpr std::size_t kHugePage = 2 << 20, kBytes = kHugePage + 12345;
  auto* data = static_cast<std::byte*>(huge_page_memory().allocate(kBytes));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kHugePage, 0U);
  EXPECT_TRUE(std::all_of(data, data + kBytes, [](std::byte byte) { return byte == std::byte{0}; }));
  std::fill(data, data + kBytes, std::byte{1});
  huge_page_memory().deallocate(data, kBytes);
  unsigned char resident[2 * kHugePage / 4096];
  EXPECT_EQ(::mincore(data, 2 * kHugePage, resident), -1);
  EXPECT_EQ(errno, ENOMEM) << "something is mapped there still";
}

}  // namespace
}  // namespace larder::ipc
