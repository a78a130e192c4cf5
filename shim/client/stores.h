// Stores: RESERVE early, copy what was granted, COMMIT.
//
// Thread-safe. Nothing of a page is read but inside finish(), or from submit() on until its ticket has ended or is overtaken. A grant that
// comes after its batch stopped waiting for it is given back (DISOWN), and so is one whose store was abandoned or never finished; a
// session that is lost in the middle makes its chunks refused, and the next session is told when their writer has stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shim/client/store_job.h"

namespace larder::client {

struct StoreCompletion {
  std::uint64_t ticket = 0;
  StoreResult result;
};

class Stores {
 public:
  // Submitted and not yet polled; one more is refused.
  static constexpr std::size_t kMaxSubmitted = 64;

  // All outlive it. `spec` and `pages` are complete before the first begin(). A store that is begun and not finished for longer than
  // `max_age` is given up when larderd asks. `sidecar`: larderd is asked to copy; nullptr: it is not. REQUIRES: the pool is closed before it
  // goes, or nothing of it runs.
  Stores(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec, const std::vector<GroupPages>& pages,
         std::chrono::milliseconds max_age = std::chrono::milliseconds(protocol::kMaxStoreAgeMs),
         SidecarCopies* sidecar = nullptr)
      : pool_(pool), room_{engine, spec, pages, sidecar, [this](StoreJob& job) { ended(job); }}, max_age_(max_age) {}

  // Asks for the right to store. `attachment` may be nullptr: everything is refused. `index_is_good`: what the index holds need not be
  // asked for. Never waits.
  void begin(const std::shared_ptr<Attachment>& attachment, const Transfer& transfer, bool index_is_good);
  // Copies what was begun, `after` that, and waits for it; for answers of larderd so long at most.
  StoreResult finish(std::uint32_t wait_ms, const std::shared_ptr<const copy::Fence>& after = nullptr);
  // The same on the pool's threads, as answers come. The ticket ends in one completion of poll(). kResourceExhausted: too many have not been
  // polled; what was begun is given back. Never waits.
  Result<std::uint64_t> submit(std::uint32_t wait_ms, std::shared_ptr<const copy::Fence> after = nullptr);
  // Where none has ended: waits for one as long as one runs, at most `wait`.
  std::vector<StoreCompletion> poll(std::size_t max, std::chrono::milliseconds wait);
  // Its pages may be others' when this returns: chunks that were not read by then are given back, also those that are just being read. Never
  // waits; the ticket ends as ever.
  void overtake(std::uint64_t ticket);
  // Gives back what was begun and neither finished nor submitted. Its pages are not read.
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
  using Clock = std::chrono::steady_clock;
  using ReservationPtr = std::shared_ptr<Reservation>;
  using BatchPtr = std::shared_ptr<StoreBatch>;
  using JobPtr = std::shared_ptr<StoreJob>;
  using Lock = std::unique_lock<std::mutex>;

  // Those with a Lock are called with mutex_ held.
  void reserve(const std::shared_ptr<Attachment>& attachment, Transfer part);
  BatchPtr take(std::uint32_t wait_ms, std::shared_ptr<const copy::Fence> after, const Lock& lock);
  std::vector<JobPtr> make_jobs(StoreBatch& batch, const Lock& lock) noexcept;
  JobPtr make_job(const ReservationPtr& reservation, StoreResult& result) const;
  void give_up_late(StoreBatch& batch, const Lock& lock);
  void start(const std::vector<JobPtr>& jobs) noexcept;
  void ended(StoreJob& job) noexcept;
  void close_one(StoreBatch& batch, const Lock& lock);
  template <typename Wanted>
  void give_up(const Wanted& wanted);
  void writer_stopped(const StoreJob& job);
  void tell_stopped();

  CopyPool& pool_;
  const StoreRoom room_;
  const std::chrono::milliseconds max_age_;
  std::atomic<std::uint64_t> running_{0};  // RESERVEs begun, whose copies have not ended

  mutable std::mutex mutex_;
  std::condition_variable answered_, batch_ended_;
  std::uint32_t last_request_ = 100;  // the handshake used small numbers
  std::uint64_t last_ticket_ = 0;
  std::size_t keys_waiting_ = 0;
  std::unordered_map<std::uint32_t, ReservationPtr> waiting_;  // by request, until answered or lost
  std::vector<ReservationPtr> begun_;                          // until their jobs are made
  StoreResult counted_;                                        // what is known before the next batch
  std::vector<BatchPtr> submitted_;                            // until polled
  std::vector<JobPtr> writing_;
  std::weak_ptr<Attachment> newest_;
  std::vector<protocol::SlotRef> stopped_;  // of lost sessions, for the next one to disown
};

}  // namespace larder::client
