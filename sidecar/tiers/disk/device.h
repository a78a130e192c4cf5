// Device: the requests in flight on one IoQueue, each with a callback. Owned by the thread of the
// tier.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/io_queue.h"

namespace larder::disk {

// Memory for direct I/O.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes);  // zeroed; `bytes`: a multiple of a block
  std::span<std::byte> span() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

class Device {
 public:
  using Then = std::function<void(int error)>;

  Device(const base::Clock& clock, std::unique_ptr<IoQueue> queue)
      : clock_(clock), queue_(std::move(queue)) {}

  bool has_room() const { return flights_.size() + kKept < kMaxIoInFlight; }
  // Starts a request. A later turn() calls `then`. REQUIRES: has_room(); maintenance requests may
  // use kKept more.
  void start(IoRequest request, Then then);
  // Submits requests, waits for a result, a wake() or the time-out, and runs callbacks.
  void turn(std::uint64_t timeout_ns);
  // Turns until so() is true. For the start only: gives up after kStartTimeoutNs with
  // kDeadlineExceeded.
  Status turn_until(const std::function<bool()>& so);
  // Runs one request in the same way.
  Status run(const IoRequest& request);

  std::size_t in_flight() const { return flights_.size(); }
  // The start of the oldest request in flight; now without a request.
  std::uint64_t oldest_start_ns() const;
  IoQueue& queue() { return *queue_; }
  std::uint64_t written_bytes = 0, read_bytes = 0;  // of successful requests

 private:
  static constexpr std::size_t kKept = 16;
  static constexpr std::uint64_t kStartTimeoutNs = 30'000'000'000;
  struct Flight {
    std::uint64_t started_ns = 0;
    IoRequest::Kind kind = IoRequest::Kind::kRead;
    std::size_t bytes = 0;
    Then then;
  };

  const base::Clock& clock_;
  std::unordered_map<std::uint64_t, Flight> flights_;  // by tag
  std::uint64_t next_tag_ = 1;
  std::vector<IoResult> results_;
  std::unique_ptr<IoQueue> queue_;  // last: its destructor waits for requests in flight
};

}  // namespace larder::disk
