// A small engine that a test kills: it stores, loads and holds chunks of random keys through the
// shim's client without end, and so passes every client point of point_page.h. And a checker for
// the chunks that killed engines left.
//
// Both run in forked processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/crash/point_page.h"

namespace larder::crash {

inline constexpr std::uint64_t kKeys = 400;

// In memory shared by the test and its victims.
struct Tally {
  // chunks; wrong: loads reported good with wrong bytes
  std::atomic<std::uint64_t> stored{0}, loaded{0}, wrong{0};
  std::atomic<bool> stop{false};  // asks living engines to end
  static Tally& make();
};

struct Orders {
  std::string socket;
  std::uint64_t seed = 0;
  std::string_view point;  // the awaited point: steps before the point are done more often
};

// Runs until killed, or until tally.stop. Exit status: 0; 1, no larderd; 3, a wrong byte.
int live(const Orders& orders, Tally& tally);

// Begins a store and never finishes it, or (odd seeds) finishes a store whose writer stops half
// way, so larderd asks about the grants. Runs until killed. Exit status 1: no larderd. REQUIRES:
// the process announces its points in `page`.
int live_unfinished(const Orders& orders, PointPage& page);

// Loads every visible chunk and compares the bytes; tally.loaded counts the chunks. Exit status: 0;
// 1, no larderd; 3, a wrong byte; 4, a visible chunk could not be loaded.
int check_all(const std::string& socket, Tally& tally);

}  // namespace larder::crash
