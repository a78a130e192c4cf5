// An engine in miniature, made to be killed: stores, loads and holds chunks of random keys through the shim's client for ever, so that
// it passes every point of point_page.h. And the one who looks afterwards what they left.
//
// Both run in processes that a test has forked.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/crash/point_page.h"

namespace larder::crash {

inline constexpr std::uint64_t kKeys = 400;

// In memory that the test shares with its victims.
struct Tally {
  std::atomic<std::uint64_t> stored{0}, loaded{0}, wrong{0};  // chunks; wrong: loads that were reported good and were not
  std::atomic<bool> stop{false};                              // asks bystanders to end
  static Tally& make();
};

struct Orders {
  std::string socket;
  std::uint64_t seed = 0;
  std::string_view point;  // where it is awaited: what leads there is done more often
};

// Until it is killed, or tally.stop. Exit status: 0, 1 no larderd, 3 a wrong byte.
int live(const Orders& orders, Tally& tally);

// Begins a store that it never finishes, or (odd seeds) finishes one whose writer stops half way: larderd asks about its grants.
// Until it is killed. Exit status 1: no larderd. REQUIRES: the process announces its points in `page`.
int live_unfinished(const Orders& orders, PointPage& page);

// Loads every chunk that is visible and compares it. Exit status: 0 (and tally.loaded says how many), 1 no larderd, 3 a wrong byte,
// 4 a visible chunk could not be loaded.
int check_all(const std::string& socket, Tally& tally);

}  // namespace larder::crash
