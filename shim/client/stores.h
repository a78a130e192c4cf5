// Stores: RESERVE early, copy what was granted, COMMIT.
//
// Thread-safe. Pages are read only inside finish(), or from submit() until the ticket ends or is
// overtaken. The client gives a grant back (DISOWN) when the grant arrives after its batch stopped
// waiting, and when the store was abandoned or never finished. A lost session makes its chunks
// refused; the next session hears when their writer has stopped.
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
  // Stores submitted and not yet polled; submit() refuses more.
  static constexpr std::size_t kMaxSubmitted = 64;

  // The arguments outlive the object. `spec` and `pages` are complete before the first begin(). A
  // store begun longer than `max_age` ago and not finished is given up when larderd asks. `sidecar`
  // asks larderd to copy, and may be nullptr. REQUIRES: before destruction the pool is closed, or
  // no store runs.
  Stores(CopyPool& pool, const copy::CopyEngine& engine, const NamespaceSpec& spec,
         const std::vector<GroupPages>& pages,
         std::chrono::milliseconds max_age = std::chrono::milliseconds(protocol::kMaxStoreAgeMs),
         SidecarCopies* sidecar = nullptr)
      : pool_(pool),
        room_{engine, spec, pages, sidecar, [this](StoreJob& job) { ended(job); }},
        max_age_(max_age) {}

  // Asks larderd for grants. With a null `attachment` all chunks are refused. `index_is_good`:
  // chunks that the index holds are present and need no grant. Never waits.
  void begin(const std::shared_ptr<Attachment>& attachment, const Transfer& transfer,
             bool index_is_good);
  // Copies the begun stores after the fence `after`, and waits for the copies. Waits at most
  // wait_ms for answers of larderd.
  StoreResult finish(std::uint32_t wait_ms,
                     const std::shared_ptr<const copy::Fence>& after = nullptr);
  // The same on the pool's threads, as answers arrive. The ticket ends in one completion of poll().
  // kResourceExhausted: kMaxSubmitted stores wait for poll(), and the begun stores are given back.
  // Never waits.
  Result<std::uint64_t> submit(std::uint32_t wait_ms,
                               std::shared_ptr<const copy::Fence> after = nullptr);
  // Completions, oldest first. If there is none and a store runs, waits for one, at most `wait`.
  std::vector<StoreCompletion> poll(std::size_t max, std::chrono::milliseconds wait);
  // After this call the pages of the ticket may be reused. Chunks that were not read to their end
  // by then are given back. Never waits; the ticket still ends in a completion.
  void overtake(std::uint64_t ticket);
  // Gives back the stores that were begun and neither finished nor submitted. Reads no page.
  void abandon();
  std::uint64_t running() const { return running_; }

  // From the control thread.
  void granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
               const std::vector<protocol::Grant>& grants);
  void attached(const std::shared_ptr<Attachment>& attachment);
  void lost(const std::shared_ptr<Attachment>& attachment);
  std::vector<protocol::SlotRef> still_writing() const;
  // larderd asks whether these old grants are still being written. Answers for each: STILL_WRITING,
  // or DISOWN if no thread writes the slot and none may begin to.
  void asked(const std::shared_ptr<Attachment>& attachment,
             const std::vector<protocol::SlotRef>& grants);

 private:
  using Clock = std::chrono::steady_clock;
  using ReservationPtr = std::shared_ptr<Reservation>;
  using BatchPtr = std::shared_ptr<StoreBatch>;
  using JobPtr = std::shared_ptr<StoreJob>;
  using Lock = std::unique_lock<std::mutex>;

  // A function with a Lock parameter runs with mutex_ held.
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
  std::atomic<std::uint64_t> running_{0};  // RESERVEs whose copies have not ended

  mutable std::mutex mutex_;
  std::condition_variable answered_, batch_ended_;
  std::uint32_t last_request_ = 100;  // the handshake used small numbers
  std::uint64_t last_ticket_ = 0;
  std::size_t keys_waiting_ = 0;
  std::unordered_map<std::uint32_t, ReservationPtr> waiting_;  // by request, until answered or lost
  std::vector<ReservationPtr> begun_;                          // until their jobs are made
  StoreResult counted_;                                        // counts that go into the next batch
  std::vector<BatchPtr> submitted_;                            // until polled
  std::vector<JobPtr> writing_;
  std::weak_ptr<Attachment> newest_;
  // Grants of lost sessions, which the next session disowns.
  std::vector<protocol::SlotRef> stopped_;
};

}  // namespace larder::client
