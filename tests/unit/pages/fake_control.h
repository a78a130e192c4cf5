// A Control whose answers the test sets. Thread-safe but for its fields, which are set before the
// server starts or are atomic.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "sidecar/stats/control.h"

namespace larder::pages {

class FakeControl final : public stats::Control {
 public:
  stats::Stats snapshot() const override { return stats; }
  bool healthy() const override { return is_healthy; }
  bool ready() const override { return is_ready; }
  Result<std::uint64_t> drop_namespace(const std::string& id, std::uint32_t) override {
    const std::lock_guard lock(mutex_);
    dropped_.push_back(id);
    if (id == "beef") return Status(Code::kNotFound, "no namespace beef");
    return std::uint64_t{7};
  }
  Result<std::uint64_t> clear(std::uint32_t) override {
    if (!is_healthy) return Status(Code::kDeadlineExceeded, "the event loop did not answer");
    return std::uint64_t{11};
  }
  Result<protocol::ActCounts> act(protocol::Verb verb, const std::string& id,
                                  const std::vector<protocol::BlockHash>& hashes,
                                  std::uint32_t) override {
    const std::lock_guard lock(mutex_);
    acted_.push_back(std::to_string(static_cast<unsigned>(verb)) + " " + id);
    for (const protocol::BlockHash& hash : hashes)
      acted_.back() += " " + std::to_string(hash.lo) + ":" + std::to_string(hash.hi);
    if (id == "beef") return Status(Code::kNotFound, "no namespace beef");
    return protocol::ActCounts{hashes.size(), 1, 2};
  }
  stats::TracePage trace(std::optional<std::uint64_t> from) override {
    const std::lock_guard lock(mutex_);
    if (!from) return {1000, 5, 0, {}};
    return {2000, *from + 1, 2, {{1500, "llama", 600, 256, 256, 4096, {7, 8}}}};
  }
  // "VERB NAMESPACE LO:HI ..." of each call.
  std::vector<std::string> acted() const {
    const std::lock_guard lock(mutex_);
    return acted_;
  }
  std::vector<std::string> dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  stats::Stats stats;
  std::atomic<bool> is_healthy{true}, is_ready{true};

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> dropped_, acted_;
};

}  // namespace larder::pages
