// How many bytes are at a device at once, on devices of several speeds that are simulated.
#include "sidecar/tiers/disk/flight_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace larder::disk {
namespace {

constexpr std::uint64_t kMost = 16 << 20;
constexpr std::uint64_t kLatencyNs = 100'000;

// Moves one request after the other at its speed, and answers each a little later.
class SlowDevice {
 public:
  explicit SlowDevice(double its_bytes_per_s) : bytes_per_s(its_bytes_per_s) {}
  double bytes_per_s;

  // Requests of so many bytes, as many as the window lets through, for so long.
  void run(FlightWindow& window, std::uint64_t request_bytes, double seconds,
           std::size_t most_requests = SIZE_MAX) {
    const std::uint64_t end = now_ns_ + static_cast<std::uint64_t>(seconds * 1e9);
    while (now_ns_ < end) {
      while (going_.size() < most_requests &&
             window.lets(going_.size() * request_bytes, request_bytes)) {
        const auto takes =
            static_cast<std::uint64_t>(static_cast<double>(request_bytes) / bytes_per_s * 1e9);
        free_ns_ = std::max(free_ns_, now_ns_) + takes;
        going_.push_back({now_ns_, free_ns_ + kLatencyNs});
      }
      const Going one = going_.front();
      going_.pop_front();
      now_ns_ = std::max(now_ns_, one.ends_ns);
      moved_ += request_bytes;
      window.ended(one.began_ns, now_ns_, request_bytes);
    }
  }
  // Of the device's speed, in the next run.
  double used(FlightWindow& window, std::uint64_t request_bytes, double seconds) {
    const std::uint64_t before = moved_, from = now_ns_;
    run(window, request_bytes, seconds);
    return static_cast<double>(moved_ - before) / (static_cast<double>(now_ns_ - from) / 1e9) /
           bytes_per_s;
  }

 private:
  struct Going {
    std::uint64_t began_ns, ends_ns;
  };
  std::deque<Going> going_;
  std::uint64_t now_ns_ = 1'000'000'000, free_ns_ = 0, moved_ = 0;
};

// covers F-155
TEST(FlightWindowTest, FastDeviceGetsTheMaximum) {
  FlightWindow window(kMost);
  SlowDevice device(3e9);
  device.run(window, 2 << 20, 2);
  EXPECT_EQ(window.bytes(), kMost);
}

// covers F-155
TEST(FlightWindowTest, SlowDeviceWindowMatchesTheTargetTimeAtFullUse) {
  for (const double bytes_per_s : {60e6, 125e6, 250e6, 500e6}) {
    FlightWindow window(kMost);
    SlowDevice device(bytes_per_s);
    device.run(window, 256 << 10, 3);
    const double target = bytes_per_s * FlightWindow::kTargetNs / 1e9;
    EXPECT_GT(static_cast<double>(window.bytes()), 0.7 * target) << bytes_per_s;
    EXPECT_LT(static_cast<double>(window.bytes()), 1.5 * target + 2 * FlightWindow::kBeyondBytes)
        << bytes_per_s;
    EXPECT_GT(device.used(window, 256 << 10, 2), 0.95) << bytes_per_s;
  }
}

// A request of theirs takes longer than the target by itself.
// covers F-155
TEST(FlightWindowTest, MinimumIsOneLargestRequest) {
  FlightWindow window(kMost);
  SlowDevice device(4e6);
  device.run(window, 2 << 20, 20);
  EXPECT_EQ(window.bytes(), 2U << 20);
  EXPECT_TRUE(window.lets(0, 80 << 20)) << "one goes always, however large";
  EXPECT_FALSE(window.lets(4096, 2 << 20));
  FlightWindow small(1 << 20);
  device.run(small, 2 << 20, 20);
  EXPECT_EQ(small.bytes(), 1U << 20) << "never above the most";
}

// covers F-155
TEST(FlightWindowTest, WindowFollowsAChangingDevice) {
  FlightWindow window(kMost);
  SlowDevice device(3e9);
  device.run(window, 1 << 20, 1);
  EXPECT_EQ(window.bytes(), kMost);
  device.bytes_per_s = 100e6;
  device.run(window, 1 << 20, 3);
  EXPECT_LT(window.bytes(), 5U << 20);
  device.bytes_per_s = 3e9;
  device.run(window, 1 << 20, 1);
  EXPECT_EQ(window.bytes(), kMost) << "within a second";
}

// covers F-155
TEST(FlightWindowTest, UnusedWindowDoesNotGrow) {
  FlightWindow window(kMost);
  SlowDevice device(100e6);
  device.run(window, 1 << 20, 3);
  device.bytes_per_s = 3e9;
  device.run(window, 64 << 10, 0.2, 2);  // the round that had begun
  const std::uint64_t narrow = window.bytes();
  EXPECT_LT(narrow, kMost / 2);
  device.run(window, 64 << 10, 3, 2);
  EXPECT_EQ(window.bytes(), narrow);
}

// Beside reads, writes get a part of the device.
// covers F-155
TEST(FlightWindowTest, ShareIsAPartOfTheWindow) {
  FlightWindow window(kMost);
  EXPECT_TRUE(window.lets(3 << 20, 1 << 20, 4));
  EXPECT_FALSE(window.lets(4 << 20, 1 << 20, 4));
}

}  // namespace
}  // namespace larder::disk
