#include "sidecar/ipc/huge_page_memory.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace larder::ipc {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

class HugePageMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t /*alignment: a huge page is aligned to all*/) override {
    const std::size_t size = whole_pages(bytes);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* mapped = ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    auto* begin = static_cast<std::byte*>(mapped);
    const std::size_t before = whole_pages(reinterpret_cast<std::uintptr_t>(begin)) - reinterpret_cast<std::uintptr_t>(begin);
    if (before != 0) ::munmap(begin, before);
    ::munmap(begin + before + size, kHugePage - before);
    ::madvise(begin + before, size, MADV_HUGEPAGE);  // refused: slower, no more
    return begin + before;
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t /*alignment*/) override { ::munmap(data, whole_pages(bytes)); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

std::pmr::memory_resource& huge_page_memory() {
  static HugePageMemory memory;
  return memory;
}

}  // namespace larder::ipc
