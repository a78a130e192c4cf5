// IoQueue: reads, writes and syncs of files in the background, by io_uring, or by a few threads if
// io_uring is refused.
//
// Owned by one thread, except for wake(). A request moves all of its bytes or fails: a short
// transfer is continued.
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
  // One after the other at `offset`; an empty part is skipped. A write does not change the bytes.
  std::array<std::span<std::byte>, 2> parts;
  std::uint64_t tag = 0;
  std::size_t bytes() const { return parts[0].size() + parts[1].size(); }
};

struct IoResult {
  std::uint64_t tag = 0;
  int error = 0;  // an errno; EIO also for a read beyond the end of the file
};

// The largest number of requests in flight in one queue.
inline constexpr std::size_t kMaxIoInFlight = 192;

class IoQueue {
 public:
  virtual ~IoQueue() = default;  // waits for requests in flight

  // REQUIRES: fewer than kMaxIoInFlight in flight; aligned buffers and offset for a file with
  // direct I/O; the buffers stay valid until the result.
  virtual void submit(const IoRequest& request) = 0;
  // Starts submitted requests, waits for results, a wake() or `timeout_ns`, and appends the
  // results.
  virtual void wait(std::uint64_t timeout_ns, std::vector<IoResult>& results) = 0;
  // Ends the running wait() or the next one. Thread-safe.
  virtual void wake() = 0;
  // The name for people: "io_uring" or "threads".
  virtual const char* name() const = 0;
};

// Memory of many requests, registered once if the kernel allows it. A limit on locked memory is a
// fallback, not an error.
struct IoMemory {
  std::span<std::byte> arena;
  bool allow_uring = true;
};
struct OpenedQueue {
  std::unique_ptr<IoQueue> queue;
  std::string fallback;  // why the queue is not io_uring with registered memory; else empty
};
OpenedQueue open_io_queue(const IoMemory& memory);

}  // namespace larder::disk
