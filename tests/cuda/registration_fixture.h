// RegistrationTest: an arena in a file, mapped by larderd and by an engine, and other processes
// that take turns to register.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cuda/pinning.h"
#include "shim/base/fd.h"
#include "tests/cuda/device_chunk.h"
#include "tests/cuda/said.h"

namespace larder::copy::cuda {

using namespace std::chrono_literals;

inline constexpr std::size_t kSlice = 64 << 10, kSlices = 4, kBytes = kSlice * kSlices;

class RegistrationTest : public testing::Test {
 protected:
  RegistrationTest() {
    file_ = ::memfd_create("arena", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file_, kBytes), 0);
    // One mapping touches the pages, as larderd does; the other is the engine's.
    larderds_ = map();
    std::memset(larderds_.data(), 1, kBytes);
    memory_ = map();
    options_.slice_bytes = kSlice;
    // Other tests run meanwhile.
    options_.turn_library = "/proc/self/fd/" + std::to_string(library_.get());
  }
  ~RegistrationTest() override {
    if (other_ > 0) end_other();
    ::munmap(larderds_.data(), kBytes);
    ::munmap(memory_.data(), kBytes);
    ::close(file_);
    fake_cuda::reset();
  }
  std::span<std::byte> map() const {
    return {static_cast<std::byte*>(
                ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)),
            kBytes};
  }
  std::unique_ptr<Pinning> pin(int on = 0) {
    const ContextPtr context = DeviceContext::of(fake_cuda::allocate(1, false, on)).value();
    auto pinning = std::make_unique<Pinning>(context, memory_, said_.log(), options_, file_);
    pinning->present(kBytes);
    return pinning;
  }
  static bool all_ready(const Pinning& pinning) {
    return test::eventually([&] { return pinning.ready_bytes() == kBytes; });
  }
  // Another process has the turn until it ends. `arena`: of the other process, or -1.
  void let_other_register(int arena, const std::string& library) {
    int told[2] = {};
    ASSERT_EQ(::pipe(told), 0);
    other_ = ::fork();
    if (other_ == 0) {
      Turn turn(arena, library);
      const char taken = turn.take() ? 1 : 0;
      [[maybe_unused]] const ssize_t written = ::write(told[1], &taken, 1);
      for (;;) ::pause();
    }
    char taken = 0;
    ASSERT_EQ(::read(told[0], &taken, 1), 1);
    ASSERT_EQ(taken, 1);
    ::close(told[0]);
    ::close(told[1]);
  }
  // The times at which a process took its turns. The process holds each turn for `holds`.
  int let_other_take_turns(std::chrono::milliseconds holds) {
    int told[2] = {};
    EXPECT_EQ(::pipe2(told, O_NONBLOCK), 0);
    other_ = ::fork();
    if (other_ == 0) {
      for (Turn turn(file_, options_.turn_library);; std::this_thread::sleep_for(5ms)) {
        if (!turn.take()) continue;
        const auto taken = std::chrono::steady_clock::now();
        [[maybe_unused]] const ssize_t written = ::write(told[1], &taken, sizeof(taken));
        std::this_thread::sleep_for(holds);
        turn.give_back();
        std::this_thread::sleep_for(5ms);
      }
    }
    ::close(told[1]);
    return told[0];
  }
  void end_other() {
    ::kill(other_, SIGKILL);
    ::waitpid(std::exchange(other_, 0), nullptr, 0);
  }

  const Fd library_{::memfd_create("library", MFD_CLOEXEC)};
  int file_ = -1;
  pid_t other_ = 0;
  std::span<std::byte> larderds_, memory_;
  RegistrationOptions options_;
  testing_support::Said said_;
};

}  // namespace larder::copy::cuda
