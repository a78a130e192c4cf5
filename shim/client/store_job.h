// StoreJob: copies the granted chunks of one RESERVE into the arena, then commits them or gives
// them back.
//
// Thread-safe as CopyPool requires. Alive until the last thread has stopped reading its pages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/copy_engine.h"
#include "shim/client/attachment.h"
#include "shim/client/copy_pool.h"
#include "shim/client/layout.h"
#include "shim/client/sidecar_copies.h"

namespace larder::client {

struct StoreResult {
  std::uint64_t stored = 0;
  std::uint64_t present = 0;
  std::uint64_t refused = 0;
  std::uint64_t bytes = 0;
  std::uint64_t copy_ns = 0;
};

// The reservations of one finish() or submit().
struct StoreBatch {
  std::uint64_t ticket = 0;  // 0: a batch of finish()
  std::shared_ptr<const copy::Fence> after;
  std::chrono::steady_clock::time_point deadline;  // of larderd's answers

  // From here on the pages may be reused: chunks not read to their end before are given back.
  void overtake() { overtaken_.fetch_or(1, std::memory_order_acq_rel); }
  // A read-modify-write too: a thread that gets false has read its pages before overtake() returns
  // on the other thread.
  bool overtaken() { return overtaken_.fetch_or(0, std::memory_order_acq_rel) != 0; }

  // The next two are guarded by the mutex of Stores.
  std::size_t open = 0;  // RESERVEs without an answer or with running copies
  StoreResult result;

 private:
  std::atomic<std::uint32_t> overtaken_{0};
};

// One RESERVE and its answer.
struct Reservation {
  std::shared_ptr<Attachment> attachment;
  Transfer transfer;  // only the chunks in the RESERVE
  std::chrono::steady_clock::time_point begun;
  bool answered = false;
  bool abandoned = false;  // the batch went on without this reservation, or the store was given up
  std::shared_ptr<StoreBatch> batch;  // nullptr before finish() or submit()
  std::vector<protocol::Grant> grants;
};

// Shared by all stores, and outlives them. `ended` is called once a job, by the last of its
// threads, and must not throw.
class StoreJob;
struct StoreRoom {
  const copy::CopyEngine& engine;
  const NamespaceSpec& spec;
  const std::vector<GroupPages>& pages;
  SidecarCopies* sidecar;  // asks larderd to copy; may be nullptr
  std::function<void(StoreJob&)> ended;
};

class StoreJob final : public CopyJob {
 public:
  struct Chunk {
    const std::uint32_t* pages;
    std::span<std::byte> slot;
    protocol::CommitRecord record;
  };

  // REQUIRES: an answered reservation with a batch, and chunks of the reservation. The job yields
  // to loads, because requests wait for loads.
  StoreJob(const StoreRoom& room, std::shared_ptr<Reservation> reservation,
           std::vector<Chunk> chunks);
  bool copy(std::size_t part) override;
  void finished() override;

  // Sends COMMIT for each copied chunk and DISOWN for the others; adds to `result`. REQUIRES: the
  // job has finished.
  void settle(StoreResult& result);
  Attachment& attachment() const { return *reservation_->attachment; }
  StoreBatch& batch() const { return *reservation_->batch; }
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  using Clock = std::chrono::steady_clock;
  void tell(std::size_t stored) const;
  const Group& group() const { return room_.spec.groups[reservation_->transfer.group]; }

  const StoreRoom& room_;
  const std::shared_ptr<Reservation> reservation_;
  std::vector<Chunk> chunks_;
  std::atomic<std::int64_t> started_ns_{0};  // by the clock; 0: not yet
  std::uint64_t copy_ns_ = 0;
  std::vector<std::uint8_t> written_;  // each element by one thread
};

}  // namespace larder::client
