// The bytes asked for at once: by the length and the throughput of the link.
#include "sidecar/net/receive_window.h"

#include <gtest/gtest.h>

#include "sidecar/base/time_units.h"

namespace larder::net {
namespace {

using base::kNsPerMs;

constexpr std::uint64_t kPart = 2 << 20;

// A link of a given rate and delay, always asked for as much as the window allows; the final
// window.
std::uint64_t settled(ReceiveWindow& window, double rate, std::uint64_t round_trip_ns,
                      std::uint64_t for_ns) {
  std::uint64_t now = kNsPerMs;
  for (const std::uint64_t end = now + for_ns; now < end;) {
    window.held_back();
    // The bytes of the window come in one round trip, or at the speed of the link.
    const double parts = static_cast<double>(window.bytes()) / kPart;
    const double each_ns = std::max(1e9 * kPart / rate, static_cast<double>(round_trip_ns) / parts);
    now += static_cast<std::uint64_t>(each_ns);
    window.came(kPart, now, false);
  }
  return window.bytes();
}

TEST(ReceiveWindowTest, ShortLinkRequestsTwoPartsAtOnce) {
  ReceiveWindow window;
  EXPECT_EQ(window.bytes(), ReceiveWindow::kMost) << "the link is unknown";
  window.round_trip(60'000);
  EXPECT_EQ(window.bytes(), ReceiveWindow::kLeast);
  EXPECT_EQ(settled(window, 2.5e9, 60'000, 500 * kNsPerMs), ReceiveWindow::kLeast);
}

TEST(ReceiveWindowTest, LongFastLinkIsKeptFull) {
  ReceiveWindow window;
  window.round_trip(5 * kNsPerMs);
  EXPECT_EQ(window.bytes(), 20'000'000U) << "as of a fast network";
  // 1.2 GB/s: 6 MB are on their way.
  const std::uint64_t bytes = settled(window, 1.2e9, 5 * kNsPerMs, 500 * kNsPerMs);
  EXPECT_GE(bytes, 11'000'000U);
  EXPECT_LE(bytes, 13'000'000U);
}

TEST(ReceiveWindowTest, WindowGrowsAgainAfterASlowPeriod) {
  ReceiveWindow window;
  window.round_trip(20 * kNsPerMs);
  EXPECT_EQ(settled(window, 50e6, 20 * kNsPerMs, 2000 * kNsPerMs), ReceiveWindow::kLeast);
  EXPECT_GE(settled(window, 1e9, 20 * kNsPerMs, 1000 * kNsPerMs), 30'000'000U);
  EXPECT_LE(window.bytes(), ReceiveWindow::kMost);
}

TEST(ReceiveWindowTest, IdleTimeIsNotMeasured) {
  ReceiveWindow window;
  window.round_trip(5 * kNsPerMs);
  const std::uint64_t before = window.bytes();
  for (std::uint64_t now = kNsPerMs; now < 3000 * kNsPerMs; now += 20 * kNsPerMs)
    window.came(kPart, now, false);
  EXPECT_EQ(window.bytes(), before);
  for (std::uint64_t now = 4000 * kNsPerMs; now < 7000 * kNsPerMs; now += 20 * kNsPerMs) {
    window.held_back();
    window.came(kPart, now, true);
  }
  EXPECT_EQ(window.bytes(), before) << "no request was sent while the bytes came";
}

TEST(ReceiveWindowTest, OneRequestOfAnySizeIsAllowed) {
  ReceiveWindow window;
  window.round_trip(1000);
  EXPECT_TRUE(window.lets(0, 100 << 20));
  EXPECT_TRUE(window.lets(2 << 20, 2 << 20));
  EXPECT_FALSE(window.lets(ReceiveWindow::kLeast, 1));
}

}  // namespace
}  // namespace larder::net
