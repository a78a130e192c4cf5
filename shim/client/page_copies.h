// PageCopies: the copy engine for the KV pages of one client. This is the host's copy engine until
// pages on a CUDA device are registered, and the device's from then on. All pages of a client lie
// in host memory or on one device.
//
// Thread-safe. The choice is made before the first transfer.
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
  // The host's engine and the log outlive the object.
  PageCopies(const copy::CopyEngines& engines, LogRing& log)
      : engines_(engines), log_(log), chosen_(&engines.host) {}

  // Call this before the pages of a group are used. kUnsupported: the pages lie in several
  // memories, or in another memory than the pages of earlier calls.
  Status serve(const GroupPages& layers);
  bool on_device() const { return chosen_.load(std::memory_order_acquire) != &engines_.host; }

  // Sets the engine's stream; see larder_after_stream().
  Status follow(void* stream);
  // The fence for a copy that begins now, or nullptr. An error if the last follow() failed: without
  // a fence no copy may begin.
  Result<std::shared_ptr<const copy::Fence>> after() const;

  const char* name() const override { return chosen().name(); }
  Result<std::uint64_t> store(const copy::PieceList& from,
                              std::span<std::byte> slot) const override {
    return chosen().store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    return chosen().load(slot, root, to);
  }
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes,
                    const copy::Fence* after) const override {
    return chosen().load_parts(parts, piece_bytes, after);
  }
  Status digests(const copy::PieceList& of, std::span<std::uint64_t> table) const override {
    return chosen().digests(of, table);
  }
  bool outlives_process() const override { return chosen().outlives_process(); }
  void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const override {
    chosen().prepare(piece_bytes, pieces, threads);
  }
  std::uint64_t joined_bytes() const override { return chosen().joined_bytes(); }
  protocol::CopyStrategy strategy() const override { return chosen().strategy(); }
  // nullptr also if no thread can be made for the registration: copies are slower then.
  std::unique_ptr<copy::ReadyMemory> make_ready(std::span<std::byte> memory,
                                                int file = -1) const override;

 private:
  const copy::CopyEngine& chosen() const { return *chosen_.load(std::memory_order_acquire); }

  const copy::CopyEngines engines_;
  LogRing& log_;
  bool served_ = false;
  std::unique_ptr<copy::CopyEngine> device_;
  std::uint64_t device_number_ = 0;
  std::atomic<const copy::CopyEngine*> chosen_;
  mutable std::mutex mutex_;
  Result<std::shared_ptr<const copy::Fence>> after_{nullptr};
};

}  // namespace larder::client
