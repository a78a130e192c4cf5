// Loads: asynchronous copies from arena to KV pages, each verified, each ending in exactly one completion.
//
// Thread-safe. A load fails as a whole with its first failed chunk; its completion appears only when every thread has stopped
// writing. The deadline bounds the way to the start of the copy and nothing behind it. One that goes by layers is the same load in
// another order: its layers can be waited for one by one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shim/client/layer_load.h"

namespace larder::client {

class Loads {
 public:
  // Loads begun and not yet polled; one more is refused.
  static constexpr std::size_t kMaxLoads = 4096;

  // All outlive it. `spec` and `pages` are complete before the first start().
  Loads(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec, const std::vector<GroupPages>& pages,
        SidecarCopies* sidecar = nullptr)
      : pool_(pool), room_{engine, spec, pages, [this](const Completion& done) { complete(done); }, sidecar} {
    completed_.reserve(kMaxLoads);
  }

  // Its copies begin `after` that. REQUIRES: a checked transfer of at least one chunk. Returns the ticket.
  Result<std::uint64_t> start(std::shared_ptr<Attachment> attachment, Transfer transfer, std::uint32_t start_within_ms,
                              std::shared_ptr<const copy::Fence> after = nullptr, bool by_layer = false);
  // Until that layer of a load by layers is on its pages and verified; at most `wait`: kDeadlineExceeded. kNotFound: it goes not by layers, or was
  // polled. Else: why the load failed; its pages may be written until its completion.
  Status wait_layer(std::uint64_t ticket, std::uint32_t layer, std::chrono::milliseconds wait);
  // Where none has ended yet: waits for one as long as one is begun, at most `wait`.
  std::vector<Completion> poll(std::size_t max, std::chrono::milliseconds wait);
  std::uint64_t running() const { return running_; }

 private:
  bool submit(LoadOrder order, bool by_layer);
  // Never allocates: a load that was begun is answered whatever happens.
  void complete(const Completion& completion) noexcept;

  CopyPool& pool_;
  const LoadRoom room_;
  std::atomic<std::uint64_t> running_{0};
  std::mutex mutex_;
  std::condition_variable ended_, layer_ended_;
  std::uint64_t last_ticket_ = 0;
  std::size_t outstanding_ = 0;
  std::vector<Completion> completed_;                                             // oldest first
  std::unordered_map<std::uint64_t, std::shared_ptr<const LayerLoad>> by_layer_;  // by ticket, until polled
};

}  // namespace larder::client
