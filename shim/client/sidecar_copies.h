// SidecarCopies: asks larderd to copy a chunk where larderd copies (transfer: sidecar), and
// otherwise copies with the engine's own copy engine.
//
// The engine's KV memory is exported once a session, when all pages are registered and larderd
// announces the capability. A copy by larderd counts only after the engine's own kernels have
// digested the engine's pages and the digests match the chunk's root. A stale view of the pages in
// larderd therefore costs time, never a wrong byte. The engine makes a copy that larderd does not
// make, in the same call, so no request fails. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/copy_engine.h"
#include "cuda/memory_export.h"
#include "shim/client/attachment.h"
#include "shim/client/copy_flags.h"
#include "shim/client/layout.h"
#include "shim/client/log_ring.h"
#include "shim/protocol/codec.h"

namespace larder::client {

// A copy by the engine itself. larderd hears of it before the first one, because writes of the
// engine's GPU can outlive the process. For an engine without such copies, larderd frees the slots
// as soon as larderd's own copies have stopped.
Result<std::uint64_t> store_by_itself(Attachment& attachment, const copy::CopyEngine& own,
                                      const copy::PieceList& from, std::span<std::byte> slot);

class SidecarCopies {
 public:
  // Runs work that may wait for a GPU on another thread. False: not now.
  using Background = std::function<bool(std::function<void()> work)>;
  // The references outlive the object. `own` copies, and digests pages in place.
  SidecarCopies(const copy::CopyEngine& own, LogRing& log, Background background,
                const copy::MemoryExporter& exporter = copy::cuda_exporter())
      : own_(own), log_(log), background_(std::move(background)), exporter_(exporter) {}

  // Like CopyEngine::store() and load(); `slot` is the memory of `ref` in the arena of
  // `attachment`.
  Result<std::uint64_t> store(Attachment& attachment, const protocol::SlotRef& ref,
                              const copy::PieceList& from, std::span<std::byte> slot);
  Status load(Attachment& attachment, const protocol::SlotRef& ref, std::uint64_t root,
              std::span<const std::byte> slot, const copy::PieceList& to);

  // Call this before the memory of the pages goes, as in sleep mode: larderd closes the memory.
  // kDeadlineExceeded: not in time. Until back(), larderd does not copy, and the caller must not
  // ask for copies.
  Status leave(std::chrono::milliseconds wait);
  void back();

  // Called on the control thread once a heartbeat, after all pages are registered; keeps a
  // reference to `pages`. Does not wait for a GPU. Without `on_device`, only tells larderd that the
  // pages lie in host memory.
  void beaten(Attachment& attachment, const std::vector<GroupPages>& pages, bool on_device);
  // EXPORTED or WITHDRAWN.
  Status answered(Attachment& attachment, protocol::Decoder& decoder, std::vector<Fd> fds);
  void lost(const Attachment& attachment);

  bool open() const { return current() != nullptr; }

 private:
  enum class State { kNew, kLooking, kAsked, kOpen, kLeaving, kRefused };
  // The memory that larderd has open, and the flags for copies.
  struct Open {
    const Attachment* attachment;
    copy::PageExport pages;
    std::shared_ptr<CopyFlags> flags;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::shared_ptr<const Open> current() const {
    const Lock lock(mutex_);
    return open_;
  }
  // Examines the pages in the background, for one beaten().
  void probe(const std::vector<GroupPages>& pages, std::uint64_t number);
  copy::TransferRefusal look_at(const std::vector<GroupPages>& pages) const;
  // REQUIRES of these: the mutex is held.
  void send_exports(const copy::DeviceId& device, std::vector<copy::MemoryHandle> handles);
  void decline(const copy::TransferRefusal& why);
  void tell_why(const copy::TransferRefusal& why);
  void withdraw(bool again);
  Status exported(protocol::Decoder& decoder, std::vector<Fd> fds);

  // Asks larderd for a copy and returns the root, not yet verified. On an error the engine must
  // copy.
  Result<std::uint64_t> ask(Attachment& attachment, protocol::CopyVerb verb,
                            const protocol::SlotRef& ref, const copy::PieceList& list);
  bool send_copy(const Open& open, const protocol::Copy& head,
                 const std::vector<std::uint64_t>& pieces);
  Status verify(std::uint64_t root, std::span<const std::byte> slot,
                const copy::PieceList& list) const;
  // Stored pages can be reused while they are read, and then differ: one difference proves no
  // fault.
  static constexpr int kMostDifferences = 3;
  // Ends copies by larderd: the open memory is withdrawn. `again`: larderd's view of the memory is
  // old, and the memory is exported anew. Otherwise larderd's copies fail or differ from the pages:
  // larderd gets the reason, and does not copy again in this session.
  void mistrust(const Open& open, const copy::TransferRefusal& why, bool again);

  const copy::CopyEngine& own_;
  LogRing& log_;
  const Background background_;
  const copy::MemoryExporter& exporter_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kNew;
  Attachment* session_ = nullptr;  // the session of state_; lives until lost()
  bool asleep_ = false;            // between leave() and back()
  std::uint64_t probe_ = 0;        // number of the last probe(); earlier ones are void
  unsigned looking_ = 0;           // running probe() calls
  bool again_ = false;             // export anew after WITHDRAWN
  std::uint32_t awaited_ = 0;      // EXPORTED messages still to come
  copy::PageExport exported_;
  std::shared_ptr<CopyFlags> flags_;
  std::shared_ptr<const Open> open_;
  std::atomic<int> differences_{0};  // of stores, since the last right one or since EXPORTED
};

}  // namespace larder::client
