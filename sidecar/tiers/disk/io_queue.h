// IoQueue: reads, writes and syncs of files that run in the background; io_uring, or a few threads where that is refused.
//
// Owned by one thread, but for wake(). A request moves all of its bytes or fails: a transfer that stops short is continued.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::disk {

struct IoRequest {
  enum class Kind : std::uint8_t { kRead, kWrite, kSync };
  Kind kind = Kind::kRead;
  int fd = -1;
  std::uint64_t offset = 0;
  std::array<std::span<std::byte>, 2>
      parts;  // one after the other at `offset`; an empty one is none. A write does not change them
  std::uint64_t tag = 0;
  std::size_t bytes() const { return parts[0].size() + parts[1].size(); }
};

struct IoResult {
  std::uint64_t tag = 0;
  int error = 0;  // an errno. EIO also for what lies behind a file's end
};

// Requests that may be in flight in one queue.
inline constexpr std::size_t kMaxIoInFlight = 192;

class IoQueue {
 public:
  virtual ~IoQueue() = default;  // waits for what is in flight

  // REQUIRES: fewer than kMaxIoInFlight in flight; buffers, file and offset aligned where the file is open for direct I/O; the
  // buffers stay until the result is there.
  virtual void submit(const IoRequest& request) = 0;
  // Starts what was submitted, waits for results, a wake() or `timeout_ns`, and appends the results that are there.
  virtual void wait(std::uint64_t timeout_ns, std::vector<IoResult>& results) = 0;
  // Ends a wait() that is running or the next one. Thread-safe.
  virtual void wake() = 0;
  // What people are told: "io_uring" or "threads".
  virtual const char* name() const = 0;
};

// Memory that many requests will name; where the kernel allows it, it is registered once. A limit on locked memory is a fallback.
struct IoMemory {
  std::span<std::byte> arena;
  bool allow_uring = true;
};
struct OpenedQueue {
  std::unique_ptr<IoQueue> queue;
  std::string fallback;  // why it is not io_uring with registered memory; empty if it is
};
OpenedQueue open_io_queue(const IoMemory& memory);

}  // namespace larder::disk
