// SidecarCopies: asks larderd to copy a chunk, where it does that itself (transfer: sidecar), and else lets the engine's own copy engine do it.
//
// It exports the engine's KV memory once a session, when all pages are registered and larderd announces that it copies. Whatever larderd says, a copy of
// its counts only once this engine's own kernels have digested its own pages, and found what the chunk's root says: a stale view of them can cost time,
// never a wrong byte. A copy that larderd does not or cannot make the engine makes, in the same call: no request fails for it. Thread-safe.
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

// The engine's own copy, of whose GPU larderd is told before the first one: what that writes may outlive this process. Copies by larderd do not, and it
// gives such an engine's slots on as soon as it has stopped.
Result<std::uint64_t> store_by_itself(Attachment& attachment, const copy::CopyEngine& own, const copy::PieceList& from,
                                      std::span<std::byte> slot);

class SidecarCopies {
 public:
  // Has work done on another thread, which may wait for a GPU. False: not just now.
  using Background = std::function<bool(std::function<void()> work)>;
  // All outlive it. `own`: copies, and digests pages where they lie.
  SidecarCopies(const copy::CopyEngine& own, LogRing& log, Background background,
                const copy::MemoryExporter& exporter = copy::cuda_exporter())
      : own_(own), log_(log), background_(std::move(background)), exporter_(exporter) {}

  // As CopyEngine::store() and load(); `slot` names the same memory as `ref`, in this attachment's arena.
  Result<std::uint64_t> store(Attachment& attachment, const protocol::SlotRef& ref, const copy::PieceList& from,
                              std::span<std::byte> slot);
  Status load(Attachment& attachment, const protocol::SlotRef& ref, std::uint64_t root, std::span<const std::byte> slot,
              const copy::PieceList& to);

  // The memory of the pages is about to go, as in sleep mode: larderd closes it. kDeadlineExceeded: it has not done so in time. Until back() the engine
  // copies by itself, and nothing is to be copied.
  Status leave(std::chrono::milliseconds wait);
  void back();

  // From the control thread, once a heartbeat and when all pages are registered, which it keeps. Waits for no GPU. Not on a device: that is told, and nothing else.
  void beaten(Attachment& attachment, const std::vector<GroupPages>& pages, bool on_device);
  // EXPORTED or WITHDRAWN.
  Status answered(Attachment& attachment, protocol::Decoder& decoder, std::vector<Fd> fds);
  void lost(const Attachment& attachment);

  bool open() const { return current() != nullptr; }

 private:
  enum class State { kNew, kLooking, kAsked, kOpen, kLeaving, kRefused };
  // What larderd has open, and how it is asked.
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
  // Looks at the pages in the background, for one beaten().
  void probe(const std::vector<GroupPages>& pages, std::uint64_t number);
  copy::TransferRefusal look_at(const std::vector<GroupPages>& pages) const;
  // REQUIRES of these: the mutex is held.
  void send_exports(const copy::DeviceId& device, std::vector<copy::MemoryHandle> handles);
  void decline(const copy::TransferRefusal& why);
  void tell_why(const copy::TransferRefusal& why);
  void withdraw(bool again);
  Status exported(protocol::Decoder& decoder, std::vector<Fd> fds);

  // What larderd made of it: its root is verified. A failure: the engine has to copy.
  Result<std::uint64_t> ask(Attachment& attachment, protocol::CopyVerb verb, const protocol::SlotRef& ref,
                            const copy::PieceList& list);
  bool send_copy(const Open& open, const protocol::Copy& head, const std::vector<std::uint64_t>& pieces);
  Status verify(std::uint64_t root, std::span<const std::byte> slot, const copy::PieceList& list) const;
  // Pages that are stored may become others' while they are read, and differ then: once is no proof.
  static constexpr int kMostDifferences = 3;
  // Larderd's copies end: what it has open is withdrawn. `again`: its view of the memory is only old, and is to be exported anew. Else its copies are not
  // what stands on the pages, or fail: it is told why, and copies no more in this session.
  void mistrust(const Open& open, const copy::TransferRefusal& why, bool again);

  const copy::CopyEngine& own_;
  LogRing& log_;
  const Background background_;
  const copy::MemoryExporter& exporter_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kNew;
  Attachment* session_ = nullptr;  // that state_ is of; it lives until lost()
  bool asleep_ = false;            // between leave() and back()
  std::uint64_t probe_ = 0;        // number of the last one; an earlier one is void
  unsigned looking_ = 0;           // at pages just now
  bool again_ = false;             // to be exported anew once larderd has let go
  std::uint32_t awaited_ = 0;      // EXPORTED that are still to come
  copy::PageExport exported_;
  std::shared_ptr<CopyFlags> flags_;
  std::shared_ptr<const Open> open_;
  std::atomic<int> differences_{0};  // of stores, since one was right or larderd has opened the memory
};

}  // namespace larder::client
