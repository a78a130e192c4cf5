// SimEnv: the disk tier's environment in one thread: a clock that the test moves, a file on a
// SimDisk, and requests whose order and errors are random or chosen by the test.
//
// Deterministic. Owned by one thread, like the constructor's arguments.
#pragma once

#include <cstdint>
#include <string>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/env.h"
#include "tests/sim/sim_disk.h"

namespace larder::sim {

class SimClock final : public base::Clock {
 public:
  std::uint64_t now_ns() const override { return now_ns_; }
  void advance_to(std::uint64_t ns) { now_ns_ = ns > now_ns_ ? ns : now_ns_; }
  void advance_us(std::uint64_t us) { now_ns_ += us * 1000; }

 private:
  std::uint64_t now_ns_ = 1'000'000'000;
};

// Faults of requests that begin from now on, and of the directory.
struct DeviceFaults {
  // errno of writes and syncs, and of reads; a failed write may have landed, whole or torn
  int write_error = 0, read_error = 0;
  bool stalled = false;  // no request ends
  bool away = false;     // the directory is missing
};

class SimQueue;

class SimEnv final : public disk::Env {
 public:
  SimEnv(SimClock& clock, SimDisk& disk, Random& random)
      : clock_(clock), disk_(disk), random_(random) {}

  DeviceFaults faults;
  // The process is killed: each request in flight ends or vanishes, and may write its buffer until
  // this returns. The engine must be destroyed before its next turn.
  void kill();
  // The name of a rule that a request broke; empty: no rule was broken.
  const std::string& broken_rule() const { return broken_rule_; }

  Result<disk::FileFacts> facts(const std::string& path) const override;
  Status make_directory(const std::string& path, std::uint32_t mode) override;
  Result<Fd> open(const std::string& path, int flags, std::uint32_t mode) override;
  Status lock(const Fd&) override { return {}; }
  Status reserve(const Fd& file, std::uint64_t bytes) override;
  bool set_direct(const Fd&) override { return true; }
  disk::OpenedQueue open_queue(const disk::IoMemory& memory) override;
  std::uint32_t unix_s() const override {
    return 1'700'000'000 + static_cast<std::uint32_t>(clock_.now_ns() / 1'000'000'000);
  }
  std::uint64_t random() const override { return random_(); }

 private:
  friend class SimQueue;
  SimClock& clock_;
  SimDisk& disk_;
  Random& random_;
  SimQueue* queue_ = nullptr;
  bool made_ = false;  // the file
  std::string broken_rule_;
};

}  // namespace larder::sim
