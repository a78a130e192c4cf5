// PageCopies: the copy engine of this client's KV pages: the host's, or from the moment when pages on a CUDA device are registered that
// device's. All pages of a client lie on one of the two.
//
// Thread-safe. Chosen before the first transfer.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/copy_engine.h"
#include "shim/client/layout.h"
#include "shim/client/log_ring.h"

namespace larder::client {

class PageCopies final : public copy::CopyEngine {
 public:
  // Both outlive it.
  PageCopies(const copy::CopyEngine& host, LogRing& log) : host_(host), log_(log), chosen_(&host) {}

  // Before the pages of a group are used. kUnsupported: they lie partly on a device, or on another one than those before them.
  Status serve(const GroupPages& layers);
  bool on_device() const { return chosen_.load(std::memory_order_acquire) != &host_; }

  // The engine's stream from here on: see larder_after_stream().
  Status follow(void* stream);
  // What a copy that begins now has to wait for, or nullptr. A failure, where follow() failed last: nothing may be copied, since nobody knows behind what.
  Result<std::shared_ptr<const copy::Fence>> after() const;

  const char* name() const override { return chosen().name(); }
  Result<std::uint64_t> store(const copy::PieceList& from, std::span<std::byte> slot) const override {
    return chosen().store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t root, const copy::PieceList& to) const override {
    return chosen().load(slot, root, to);
  }
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes, const copy::Fence* after) const override {
    return chosen().load_parts(parts, piece_bytes, after);
  }
  Status digests(const copy::PieceList& of, std::span<std::uint64_t> table) const override { return chosen().digests(of, table); }
  bool outlives_process() const override { return chosen().outlives_process(); }
  void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const override {
    chosen().prepare(piece_bytes, pieces, threads);
  }
  std::uint64_t joined_bytes() const override { return chosen().joined_bytes(); }
  protocol::CopyStrategy strategy() const override { return chosen().strategy(); }
  // nullptr also where no thread can be made for it: copies are slower then.
  std::unique_ptr<copy::ReadyMemory> make_ready(std::span<std::byte> memory, int file = -1) const override;

 private:
  const copy::CopyEngine& chosen() const { return *chosen_.load(std::memory_order_acquire); }

  const copy::CopyEngine& host_;
  LogRing& log_;
  bool served_ = false;
  std::unique_ptr<copy::CopyEngine> device_;
  std::uint64_t device_number_ = 0;
  std::atomic<const copy::CopyEngine*> chosen_;
  mutable std::mutex mutex_;
  Result<std::shared_ptr<const copy::Fence>> after_{nullptr};
};

}  // namespace larder::client
