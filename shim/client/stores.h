// Stores: RESERVE early, copy what was granted, COMMIT.
//
// Thread-safe. Nothing of a page is read outside finish(). A grant that comes after finish() stopped waiting for it is given back
// (DISOWN), and so is one whose store was abandoned or never finished; a session that is lost in the middle makes its chunks refused,
// and the next session is told when their writer has stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
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

class Stores {
 public:
  // All outlive it. `spec` and `pages` are complete before the first begin(). A store that is begun and not finished for longer than
  // `max_age` is given up when larderd asks. `sidecar`: larderd is asked to copy; nullptr: it is not.
  Stores(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec, const std::vector<GroupPages>& pages,
         std::chrono::milliseconds max_age = std::chrono::milliseconds(protocol::kMaxStoreAgeMs),
         SidecarCopies* sidecar = nullptr)
      : pool_(pool), engine_(engine), spec_(spec), pages_(pages), max_age_(max_age), sidecar_(sidecar) {}

  // Asks for the right to store. `attachment` may be nullptr: everything is refused. `index_is_good`: what the index holds need not be
  // asked for. Never waits.
  void begin(const std::shared_ptr<Attachment>& attachment, const Transfer& transfer, bool index_is_good);
  // Its copies begin `after` that.
  StoreResult finish(std::uint32_t wait_ms, const std::shared_ptr<const copy::Fence>& after = nullptr);
  // Gives back what was begun and not finished. Its pages are not read.
  void abandon();
  std::uint64_t running() const { return running_; }

  // From the control thread.
  void granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request, const std::vector<protocol::Grant>& grants);
  void attached(const std::shared_ptr<Attachment>& attachment);
  void lost(const std::shared_ptr<Attachment>& attachment);
  std::vector<protocol::SlotRef> still_writing() const;
  // larderd asks whether these grants, old by now, are still written: answers for each of them.
  void asked(const std::shared_ptr<Attachment>& attachment, const std::vector<protocol::SlotRef>& grants);

 private:
  class Job;
  // One RESERVE and its answer.
  struct Pending {
    std::shared_ptr<Attachment> attachment;
    Transfer transfer;  // only what was asked for
    std::chrono::steady_clock::time_point begun;
    bool answered = false;
    bool finishing = false;  // finish() has it in hand
    bool abandoned = false;  // finish() went on without it, or it was given up
    std::vector<protocol::Grant> grants;
  };
  using PendingPtr = std::shared_ptr<Pending>;
  using Lock = std::unique_lock<std::mutex>;

  void reserve(const std::shared_ptr<Attachment>& attachment, Transfer part);
  std::vector<PendingPtr> collect(Lock& lock, std::chrono::steady_clock::time_point deadline);
  std::vector<std::shared_ptr<Job>> make_jobs(const std::vector<PendingPtr>& begun, const copy::Fence* after,
                                              StoreResult& result);
  std::shared_ptr<Job> make_job(const PendingPtr& pending, const copy::Fence* after, StoreResult& result) const;
  void commit(Job& job, StoreResult& result);
  template <typename Wanted>
  void give_up(const Wanted& wanted);
  void writer_stopped(const Job& job);
  void tell_stopped();

  CopyPool& pool_;
  const copy::CopyEngine& engine_;
  const NamespaceSpec& spec_;
  const std::vector<GroupPages>& pages_;
  const std::chrono::milliseconds max_age_;
  SidecarCopies* const sidecar_;
  std::atomic<std::uint64_t> running_{0};  // begun and not yet finished

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::uint32_t last_request_ = 100;  // the handshake used small numbers
  std::size_t keys_waiting_ = 0;
  std::unordered_map<std::uint32_t, PendingPtr> waiting_;  // by request, until answered or lost
  std::vector<PendingPtr> begun_;                          // until finish() has made its jobs
  StoreResult counted_;                                    // what is known before finish()
  std::vector<std::shared_ptr<Job>> writing_;
  std::weak_ptr<Attachment> newest_;
  std::vector<protocol::SlotRef> stopped_;  // of lost sessions, for the next one to disown
};

}  // namespace larder::client
