// Loads: asynchronous copies from arena to KV pages, each verified, each ending in exactly one completion.
//
// Thread-safe. A load fails as a whole with its first failed chunk; its completion appears only when every thread has stopped
// writing. The deadline bounds the way to the start of the copy and nothing behind it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/copy_engine.h"
#include "shim/client/attachment.h"
#include "shim/client/copy_pool.h"
#include "shim/client/layout.h"

namespace larder::client {

struct Completion {
  std::uint64_t ticket = 0;
  Code status = Code::kOk;
  std::uint64_t bytes = 0;
  std::uint64_t wait_ns = 0;
  std::uint64_t copy_ns = 0;
};

class Loads {
 public:
  // Loads begun and not yet polled; one more is refused.
  static constexpr std::size_t kMaxLoads = 4096;

  // All outlive it. `spec` and `pages` are complete before the first start().
  Loads(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec, const std::vector<GroupPages>& pages)
      : pool_(pool), engine_(engine), spec_(spec), pages_(pages) {
    completed_.reserve(kMaxLoads);
  }

  // Its copies begin `after` that. REQUIRES: a checked transfer of at least one chunk. Returns the ticket.
  Result<std::uint64_t> start(std::shared_ptr<Attachment> attachment, Transfer transfer, std::uint32_t start_within_ms,
                              std::shared_ptr<const copy::Fence> after = nullptr);
  // Where none has ended yet: waits for one as long as one is begun, at most `wait`.
  std::vector<Completion> poll(std::size_t max, std::chrono::milliseconds wait);
  std::uint64_t running() const { return running_; }

 private:
  class Job;
  // Never allocates: a load that was begun is answered whatever happens.
  void complete(const Completion& completion) noexcept;

  CopyPool& pool_;
  const copy::CopyEngine& engine_;
  const NamespaceSpec& spec_;
  const std::vector<GroupPages>& pages_;
  std::atomic<std::uint64_t> running_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::uint64_t last_ticket_ = 0;
  std::size_t outstanding_ = 0;
  std::vector<Completion> completed_;  // oldest first
};

}  // namespace larder::client
