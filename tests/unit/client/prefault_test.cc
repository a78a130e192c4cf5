// The pages of granted slots, and of slots filled by others, are present before the copy, and no
// other pages are.
#include "shim/client/prefault.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sidecar/store/index_writer.h"

namespace larder::client {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kArena = 1 << 20;

class PrefaultTest : public ::testing::Test {
 protected:
  PrefaultTest() {
    const int fd = ::memfd_create("prefault", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(fd, kArena), 0);
    data_ =
        static_cast<std::byte*>(::mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::close(fd);
  }
  ~PrefaultTest() override { ::munmap(data_, kArena); }

  // Pages of [offset, offset + bytes) that this process's page table holds.
  std::size_t present(std::size_t offset, std::size_t bytes) const {
    const int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    std::vector<std::uint64_t> entries(bytes / kPage);
    const auto place = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(data_ + offset) / kPage *
                                          sizeof(std::uint64_t));
    EXPECT_EQ(::pread(fd, entries.data(), entries.size() * sizeof(std::uint64_t), place),
              static_cast<ssize_t>(entries.size() * sizeof(std::uint64_t)));
    ::close(fd);
    std::size_t count = 0;
    for (const std::uint64_t entry : entries) count += entry >> 63;
    return count;
  }
  bool ensure(Prefault& prefault, std::size_t offset, std::size_t bytes) {
    return prefault.ensure(offset, {data_ + offset, bytes});
  }

  std::byte* data_ = nullptr;
};

TEST_F(PrefaultTest, OnlyThePagesOfTheSlotArePresent) {
#ifndef MADV_POPULATE_WRITE
  GTEST_SKIP() << "no MADV_POPULATE_WRITE";
#endif
  Prefault prefault(kArena);
  const std::size_t offset = 3 * kPage, bytes = 300 * 1024;
  EXPECT_TRUE(ensure(prefault, offset, bytes));
  EXPECT_EQ(present(offset, bytes), bytes / kPage);
  EXPECT_EQ(present(0, offset), 0U);
  EXPECT_EQ(present(offset + bytes, kArena - offset - bytes), 0U);
}

TEST_F(PrefaultTest, PopulateIsCalledOnce) {
  Prefault prefault(kArena);
  EXPECT_TRUE(ensure(prefault, 0, 256 * 1024));
  EXPECT_FALSE(ensure(prefault, 0, 256 * 1024));
  EXPECT_FALSE(ensure(prefault, 64 * 1024, 128 * 1024));  // another slot size over the same pages
  EXPECT_TRUE(ensure(prefault, 192 * 1024, 128 * 1024));
  EXPECT_TRUE(ensure(prefault, kArena - 128 * 1024, 128 * 1024));
}

TEST_F(PrefaultTest, SmallSlotIsNotPopulated) {
  Prefault prefault(kArena);
  EXPECT_FALSE(ensure(prefault, kPage, 16 * 1024));
  EXPECT_EQ(present(0, kArena), 0U);
}

TEST_F(PrefaultTest, SlotFilledByOthersIsMappedBeforeTheLoad) {
#ifndef MADV_POPULATE_WRITE
  GTEST_SKIP() << "no MADV_POPULATE_WRITE";
#endif
  constexpr std::uint32_t kOurs = 3, kPayload = 128 * 1024, kSlot = 192 * 1024;
  const store::IndexShape shape{Prefault::kEntriesAhead + 8,
                                store::IndexShape::buckets_for(Prefault::kEntriesAhead + 8), kArena,
                                1, 1};
  std::vector<std::byte> memory(shape.bytes() + kPage);
  auto* index = memory.data() + kPage - reinterpret_cast<std::uintptr_t>(memory.data()) % kPage;
  store::IndexWriter writer(index, shape);
  const auto fill = [&](std::uint32_t slot, std::uint32_t ns, std::uint64_t offset, bool commit) {
    writer.grant(slot, {{slot, slot}, ns, 0, 0}, {offset, kPayload, 16 * 1024}, 1);
    if (commit) writer.commit(slot, 0);
  };
  fill(1, kOurs, 0, true);
  fill(2, kOurs + 1, kSlot, true);
  fill(3, kOurs, 2 * kSlot, false);
  fill(Prefault::kEntriesAhead + 4, kOurs, 3 * kSlot, true);
  const protocol::IndexReader reader = *protocol::IndexReader::open(index, shape.bytes());
  const auto ours = [](const protocol::Key& key) { return key.namespace_handle == kOurs; };

  Prefault prefault(kArena);
  prefault.look_ahead(reader, {data_, kArena}, ours);
  EXPECT_EQ(present(0, kPayload), kPayload / kPage);
  EXPECT_EQ(present(kSlot, 2 * kSlot), 0U) << "another namespace's, or not committed";
  EXPECT_EQ(present(3 * kSlot, kPayload), 0U) << "more than a heartbeat can spare";
  prefault.look_ahead(reader, {data_, kArena}, ours);
  EXPECT_EQ(present(3 * kSlot, kPayload), kPayload / kPage);
}

}  // namespace
}  // namespace larder::client
