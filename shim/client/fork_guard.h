// ForkGuard: tells a forked child from the process that made the guard, without a system call.
//
// The guard is a page that the kernel wipes to zeroes in children. Thread-safe. Works for raw
// clone(2) too, where atfork handlers do not run.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>

#include "shim/base/status.h"

namespace larder::client {

class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() {
    if (word_ != nullptr) ::munmap(word_, kBytes);
  }

  // Call this once, first. kInternal: the kernel has no MADV_WIPEONFORK (before Linux 4.14).
  Status arm() {
    void* page =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return Status::from_errno(errno, "mmap of the fork guard");
    if (::madvise(page, kBytes, MADV_WIPEONFORK) != 0) {
      const int err = errno;
      ::munmap(page, kBytes);
      return Status::from_errno(err, "madvise(MADV_WIPEONFORK)");
    }
    word_ = new (page) std::atomic<std::uint32_t>(1);
    return {};
  }

  bool in_child() const { return word_->load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr std::size_t kBytes = 4096;
  std::atomic<std::uint32_t>* word_ = nullptr;
};

}  // namespace larder::client
