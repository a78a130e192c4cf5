// A real Sidecar in a thread of the test's process, in a directory of its own under /dev/shm.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "sidecar/loop/sidecar.h"
#include "tests/unit/loop/client.h"

namespace larder::loop::testing_support {

class SidecarTest : public testing::Test {
 protected:
  SidecarTest() {
    char name[] = "/dev/shm/larder-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    config_.memory.size_bytes = 1 << 20;
    config_.memory.directory = directory_;
    config_.socket = directory_ + "/run/test.sock";
  }
  ~SidecarTest() override {
    stop();
    std::filesystem::remove_all(directory_);
  }

  void start() { start(clock_); }
  // `clock` lives until stop().
  void start(const base::Clock& clock) {
    Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, clock);
    ASSERT_TRUE(sidecar.ok()) << sidecar.status().to_string();
    sidecar_ = std::move(*sidecar);
    loop_ = std::thread([this] { loop_status_ = sidecar_->run(); });
    // To clear one page of 1 GiB takes a busy machine seconds.
    ASSERT_TRUE(
        wait([&] { return sidecar_->snapshot().touched_bytes == sidecar_->snapshot().arena_bytes; },
             60));
  }
  void stop() {
    if (!loop_.joinable()) return;
    sidecar_->stop();
    loop_.join();
    EXPECT_TRUE(loop_status_.ok()) << loop_status_.to_string();
    sidecar_.reset();
  }

  // Whether the condition came true in time.
  template <typename Condition>
  static bool wait(const Condition& condition, int within_s = 5) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(within_s);
    while (std::chrono::steady_clock::now() < end) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return condition();
  }
  // Lets time pass in steps that are no sleep of the sidecar; each step is seen by a tick.
  // `beating` engines beat in each.
  void pass_ms(std::uint64_t ms, std::initializer_list<Client*> beating = {}) {
    for (std::uint64_t passed = 0; passed < ms; passed += 500) {
      for (Client* client : beating) client->beat();
      const std::uint64_t uptime = stats().uptime_ms;
      clock_.advance_ms(500);
      ASSERT_TRUE(wait([&] { return stats().uptime_ms > uptime; }));
    }
  }
  stats::Stats stats() const { return sidecar_->snapshot(); }

  std::string directory_;
  config::Config config_;
  base::ManualClock clock_;
  std::unique_ptr<Sidecar> sidecar_;
  std::thread loop_;
  Status loop_status_;
};

}  // namespace larder::loop::testing_support
