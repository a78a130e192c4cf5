// TraceBuffer: the newest requests, for the recording of a trace. Requests are kept only while a
// client asks for pages.
//
// Thread-safe: the loop adds, HTTP threads take.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "sidecar/stats/trace.h"

namespace larder::session {

class TraceBuffer {
 public:
  static constexpr std::size_t kMaxChunks = 1u << 18;  // of all kept requests: 2 MiB
  static constexpr std::size_t kMaxPageChunks =
      1u << 14;  // of one page, unless a single request is longer
  // Recording stops so long after the last page().
  static constexpr std::uint64_t kWantedMs = 10'000;

  bool wanted(std::uint64_t now_ms) const {
    return now_ms < wanted_until_ms_.load(std::memory_order_relaxed);
  }
  // REQUIRES: wanted().
  void add(stats::AskedRequest request);
  // The requests from number `from` on; without `from`, the requests from now on.
  stats::TracePage page(std::optional<std::uint64_t> from, std::uint64_t now_ms);

 private:
  std::atomic<std::uint64_t> wanted_until_ms_{0};
  std::mutex mutex_;
  std::deque<stats::AskedRequest> requests_;
  std::uint64_t first_ = 0;  // the number of the first request in `requests_`
  std::size_t chunks_ = 0;
};

}  // namespace larder::session
