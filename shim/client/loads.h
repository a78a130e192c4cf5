// Loads: asynchronous copies from arena to KV pages. Each load is verified, and ends in exactly one
// completion.
//
// Thread-safe. The first failed chunk fails the whole load. The completion appears only after every
// thread has stopped writing. The deadline bounds the time to the start of the copy, not the copy.
// A load by layers is the same load in another order: callers can wait for each layer.
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
  // Loads begun and not yet polled; start() refuses more.
  static constexpr std::size_t kMaxLoads = 4096;

  // The arguments outlive the object. `spec` and `pages` are complete before the first start().
  Loads(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec,
        const std::vector<GroupPages>& pages, SidecarCopies* sidecar = nullptr)
      : pool_(pool),
        room_{engine, spec, pages, [this](const Completion& done) { complete(done); }, sidecar} {
    completed_.reserve(kMaxLoads);
  }

  // Begins a load and returns the ticket. The copies begin after the fence `after`. REQUIRES: a
  // checked transfer of at least one chunk. kResourceExhausted: too many loads, or a full queue.
  Result<std::uint64_t> start(std::shared_ptr<Attachment> attachment, Transfer transfer,
                              std::uint32_t start_within_ms,
                              std::shared_ptr<const copy::Fence> after = nullptr,
                              bool by_layer = false);
  // Waits until a layer of a load by layers is on its pages and verified. kDeadlineExceeded: not
  // within `wait`. kNotFound: the load is not by layers, or was polled. Any other error: the load
  // has failed, and threads may write its pages until the completion.
  Status wait_layer(std::uint64_t ticket, std::uint32_t layer, std::chrono::milliseconds wait);
  // Completions, oldest first. If there is none and a load is running, waits for one, at most
  // `wait`.
  std::vector<Completion> poll(std::size_t max, std::chrono::milliseconds wait);
  std::uint64_t running() const { return running_; }

 private:
  bool submit(LoadOrder order, bool by_layer);
  // Never allocates, so every begun load gets its completion.
  void complete(const Completion& completion) noexcept;

  CopyPool& pool_;
  const LoadRoom room_;
  std::atomic<std::uint64_t> running_{0};
  std::mutex mutex_;
  std::condition_variable ended_, layer_ended_;
  std::uint64_t last_ticket_ = 0;
  std::size_t outstanding_ = 0;
  std::vector<Completion> completed_;  // oldest first
  // By ticket, until polled.
  std::unordered_map<std::uint64_t, std::shared_ptr<const LayerLoad>> by_layer_;
};

}  // namespace larder::client
