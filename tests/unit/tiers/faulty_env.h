// FaultyEnv: the real file system with faults on top: the n-th call fails, a write is torn, the
// device stalls or is full. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "sidecar/tiers/disk/env.h"

namespace larder::disk::testing_support {

struct Faults {
  // Calls are counted from 0 over all calls that can fail: opens, folders, locks, reservations,
  // reads, writes, syncs.
  std::atomic<std::int64_t> fail_call{-1};  // this one fails once, with `error`
  std::atomic<int> error{5};                // EIO
  std::atomic<std::int64_t> calls{0};
  std::atomic<bool> all_writes_fail{false};               // and syncs
  std::atomic<std::int64_t> writes_fail_from{INT64_MAX};  // the same from that call on
  std::atomic<bool> all_reads_fail{false};
  std::atomic<std::int64_t> bad_offset{-1};  // a write that begins there fails
  std::atomic<bool> tear_writes{false};      // a failing write has done its first half
  std::atomic<bool> land_writes{false};      // a failing write has done its whole work
  std::atomic<bool> stalled{false};          // no request ends
  // afterwards, requests ended meanwhile are reported in the reverse order
  std::atomic<bool> newest_first{false};
  std::atomic<bool> hold_reads{false};  // no request begins
  std::atomic<bool> refuse_direct{false};
  std::atomic<std::int64_t> clock_offset_s{0};

  bool fails_now() { return calls.fetch_add(1) == fail_call.load(); }
};

class FaultyEnv final : public Env {
 public:
  Faults faults;

  Status make_directory(const std::string& path, std::uint32_t mode) override;
  Result<Fd> open(const std::string& path, int flags, std::uint32_t mode) override;
  Status lock(const Fd& file) override;
  Status reserve(const Fd& file, std::uint64_t bytes) override;
  bool set_direct(const Fd& file) override {
    return !faults.refuse_direct && Env::set_direct(file);
  }
  OpenedQueue open_queue(const IoMemory& memory) override;
  std::uint32_t unix_s() const override {
    return static_cast<std::uint32_t>(Env::unix_s() + faults.clock_offset_s.load());
  }
};

}  // namespace larder::disk::testing_support
