// Copy engines for tests: the host's, with a disturbance.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cuda/copy_engine.h"

namespace larder::client::testing_support {

// Tests override the disturbed call.
class HostCopies : public copy::CopyEngine {
 public:
  const char* name() const override { return "host, disturbed"; }
  Result<std::uint64_t> store(const copy::PieceList& from,
                              std::span<std::byte> slot) const override {
    return copy::host_copy_engine().store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    return copy::host_copy_engine().load(slot, root, to);
  }
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes,
                    const copy::Fence* after) const override {
    return copy::host_copy_engine().load_parts(parts, piece_bytes, after);
  }
};

// A caller waits until the gate is open, 10 s at most. Thread-safe.
class Gate {
 public:
  // Returns how many came before.
  int enter() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return entered_++;
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return open_; });
  }
  bool await_entered(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return entered_ >= count; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int entered_ = 0;
  bool open_ = false;
};

}  // namespace larder::client::testing_support
