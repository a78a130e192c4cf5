// StoreJob: the granted chunks of one RESERVE on their way into the arena: copied, then committed or given back.
//
// Thread-safe as CopyPool has it. Alive until nobody reads its pages any more.
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

// All that was begun until one finish() or submit().
struct StoreBatch {
  std::uint64_t ticket = 0;  // 0: finish() waits for it
  std::shared_ptr<const copy::Fence> after;
  std::chrono::steady_clock::time_point deadline;  // of larderd's answers

  // From here on its pages may be others': what was not read before is given back.
  void overtake() { overtaken_.fetch_or(1, std::memory_order_acq_rel); }
  // A read-modify-write as well: who is told false had read its pages before the other's overtake() returned.
  bool overtaken() { return overtaken_.fetch_or(0, std::memory_order_acq_rel) != 0; }

  // The next two under the mutex of Stores.
  std::size_t open = 0;  // RESERVEs that are not answered, and those whose copies have not ended
  StoreResult result;

 private:
  std::atomic<std::uint32_t> overtaken_{0};
};

// One RESERVE and its answer.
struct Reservation {
  std::shared_ptr<Attachment> attachment;
  Transfer transfer;  // only what was asked for
  std::chrono::steady_clock::time_point begun;
  bool answered = false;
  bool abandoned = false;             // its batch went on without it, or it was given up
  std::shared_ptr<StoreBatch> batch;  // it is finished with that one; nullptr: not yet
  std::vector<protocol::Grant> grants;
};

// Of all stores; outlives them. `ended` is called once a job, by the last of its threads, and must not throw.
class StoreJob;
struct StoreRoom {
  const copy::CopyEngine& engine;
  const NamespaceSpec& spec;
  const std::vector<GroupPages>& pages;
  SidecarCopies* sidecar;  // asks larderd to copy; nullptr: it is not asked
  std::function<void(StoreJob&)> ended;
};

class StoreJob final : public CopyJob {
 public:
  struct Chunk {
    const std::uint32_t* pages;
    std::span<std::byte> slot;
    protocol::CommitRecord record;
  };

  // REQUIRES: an answered reservation with a batch, and chunks of it. Yields to loads: somebody waits for those.
  StoreJob(const StoreRoom& room, std::shared_ptr<Reservation> reservation, std::vector<Chunk> chunks);
  bool copy(std::size_t part) override;
  void finished() override;

  // Says what became of each chunk: COMMIT or DISOWN. Adds to `result`. REQUIRES: it has finished.
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
