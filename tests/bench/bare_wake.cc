#include "tests/bench/bare_wake.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/bench/report.h"

namespace larder::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 100;

// A thread that copies once for each announced round.
class Copier {
 public:
  explicit Copier(std::size_t bytes)
      : from_(bytes, std::byte{1}), to_(bytes), thread_([this] { run(); }) {}
  ~Copier() {
    tell(-1);
    thread_.join();
  }

  // Microseconds of the notify.
  double tell(int round) {
    {
      const std::lock_guard lock(mutex_);
      told_ = round;
    }
    const auto start = Clock::now();
    changed_.notify_one();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  void await(int round) {
    std::unique_lock lock(mutex_);
    copied_.wait(lock, [&] { return done_ == round; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return told_ != done_; });
      if (told_ < 0) return;
      const int round = told_;
      lock.unlock();
      std::memcpy(to_.data(), from_.data(), to_.size());
      lock.lock();
      done_ = round;
      copied_.notify_one();
    }
  }

  std::vector<std::byte> from_, to_;
  std::mutex mutex_;
  std::condition_variable changed_, copied_;
  int told_ = 0, done_ = 0;
  std::thread thread_;
};

}  // namespace

double bare_wake_us(std::size_t bytes) {
  Copier copier(bytes);
  std::vector<double> times_us;
  for (int round = 1; round <= kRounds; ++round) {
    times_us.push_back(copier.tell(round));
    copier.await(round);
  }
  return median(std::move(times_us));
}

}  // namespace larder::bench
