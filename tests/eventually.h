// Waits for an effect of another thread or process. The deadline bounds a failing test; a passing
// test waits no longer than necessary.
#pragma once

#include <chrono>
#include <thread>

namespace larder::test {

// Looks every `look_ms` until condition() holds, at most timeout_ms; returns whether the condition
// came to hold.
template <typename Condition>
bool eventually(Condition condition, int timeout_ms = 30'000, int look_ms = 20) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
  }
  return true;
}

}  // namespace larder::test
