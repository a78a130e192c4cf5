// Bell: one thread waits, and others wake the thread. A ring without a waiter ends the next wait.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace larder::webhook {

class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  // Waits for a ring, for `most`, or for `stop`.
  void wait(std::chrono::milliseconds most, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, most, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool rung_ = false;
};

}  // namespace larder::webhook
