// Stores: RESERVE early, copy what was granted, COMMIT.
//
// Thread-safe. Nothing of a page is read outside finish(). A grant that comes after finish() stopped waiting for it is given back
// (DISOWN); a session that is lost in the middle makes its chunks refused.
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
  // All outlive it. `spec` and `pages` are complete before the first begin().
  Stores(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec, const std::vector<GroupPages>& pages)
      : pool_(pool), engine_(engine), spec_(spec), pages_(pages) {}

  // Asks for the right to store. `attachment` may be nullptr: everything is refused. Never waits.
  void begin(const std::shared_ptr<Attachment>& attachment, const Transfer& transfer);
  StoreResult finish(std::uint32_t wait_ms);
  std::uint64_t running() const { return running_; }

  // From the control thread.
  void granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request, const std::vector<protocol::Grant>& grants);
  void lost(const std::shared_ptr<Attachment>& attachment);
  std::vector<protocol::SlotRef> still_writing() const;

 private:
  class Job;
  // One RESERVE and its answer.
  struct Pending {
    std::shared_ptr<Attachment> attachment;
    Transfer transfer;  // only what was asked for
    bool answered = false;
    bool abandoned = false;  // finish() went on without it
    std::vector<protocol::Grant> grants;
  };
  using PendingPtr = std::shared_ptr<Pending>;
  using Lock = std::unique_lock<std::mutex>;

  void reserve(const std::shared_ptr<Attachment>& attachment, Transfer part);
  std::vector<PendingPtr> collect(Lock& lock, std::chrono::steady_clock::time_point deadline);
  std::shared_ptr<Job> make_job(const PendingPtr& pending, StoreResult& result) const;
  void commit(Job& job, StoreResult& result);

  CopyPool& pool_;
  const copy::CopyEngine& engine_;
  const NamespaceSpec& spec_;
  const std::vector<GroupPages>& pages_;
  std::atomic<std::uint64_t> running_{0};  // begun and not yet finished

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::uint32_t last_request_ = 100;  // the handshake used small numbers
  std::size_t keys_waiting_ = 0;
  std::unordered_map<std::uint32_t, PendingPtr> waiting_;  // by request, until answered or lost
  std::vector<PendingPtr> begun_;                          // for the next finish()
  StoreResult counted_;                                    // what is known before finish()
  std::vector<std::shared_ptr<Job>> writing_;
};

}  // namespace larder::client
