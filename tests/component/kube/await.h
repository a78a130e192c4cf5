// Waiting for the operator's actions at an API server.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace larder::kube_test {

// Seconds until `test` holds; -1: not within a minute.
inline double await(const std::function<bool()>& test) {
  constexpr std::chrono::seconds kPatience{60};
  constexpr std::chrono::milliseconds kPause{50};
  const auto began = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - began < kPatience) {
    if (test())
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::this_thread::sleep_for(kPause);
  }
  return -1;
}

}  // namespace larder::kube_test
