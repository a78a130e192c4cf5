// Stores from the moment when a batch is taken: finish(), submit(), and the ends of both.
#include <algorithm>
#include <new>

#include "shim/base/test_point.h"
#include "shim/client/slot_messages.h"
#include "shim/client/stores.h"

namespace larder::client {

using protocol::GrantStatus;

// Takes all begun reservations without a batch. A reservation stays in begun_ until it has its
// answer.
Stores::BatchPtr Stores::take(std::uint32_t wait_ms, std::shared_ptr<const copy::Fence> after,
                              const Lock&) {
  const auto batch = std::make_shared<StoreBatch>();
  batch->after = std::move(after);
  batch->deadline = Clock::now() + std::chrono::milliseconds(wait_ms);
  // Chunks refused or found by begin() belong to the result of this batch.
  batch->result = std::exchange(counted_, {});
  for (const ReservationPtr& reservation : begun_) {
    if (reservation->batch) continue;
    reservation->batch = batch;
    ++batch->open;
  }
  return batch;
}

Stores::JobPtr Stores::make_job(const ReservationPtr& reservation, StoreResult& result) const {
  const Group& group = room_.spec.groups[reservation->transfer.group];
  const std::size_t count = reservation->transfer.hashes.size();
  // After a lost session the grants are void: the next larderd may have given the slots to another
  // engine.
  if (reservation->grants.size() != count || reservation->attachment->outbox().closed()) {
    result.refused += count;
    return nullptr;
  }
  std::vector<StoreJob::Chunk> chunks;
  for (std::size_t i = 0; i < count; ++i) {
    const protocol::Grant& grant = reservation->grants[i];
    const auto status = static_cast<GrantStatus>(grant.status);
    const std::span<std::byte> slot =
        is_granted(grant) ? reservation->attachment->slot(grant.offset_bytes, group.slot_bytes())
                          : std::span<std::byte>();
    if (!slot.empty())
      chunks.push_back({reservation->transfer.pages.data() + i * group.blocks_per_chunk,
                        slot,
                        {grant.slot, 0, grant.generation, 0}});
    else if (status == GrantStatus::kPresent || status == GrantStatus::kPending)
      ++result.present;
    else
      ++result.refused;
  }
  return chunks.empty() ? nullptr
                        : std::make_shared<StoreJob>(room_, reservation, std::move(chunks));
}

// Makes the jobs of the answered reservations. The session is checked and the job is listed in
// writing_ under one lock, so a grant is always in begun_ or in writing_: the ATTACHED after a lost
// session is complete, and asked() answers STILL_WRITING. Without memory for a job, its chunks are
// refused: larderd asks about the grants later, and asked() disowns them.
std::vector<Stores::JobPtr> Stores::make_jobs(StoreBatch& batch, const Lock& lock) noexcept {
  std::vector<JobPtr> jobs;
  std::erase_if(begun_, [&](const ReservationPtr& reservation) {
    if (reservation->batch.get() != &batch || !reservation->answered) return false;
    const StoreResult before = batch.result;
    JobPtr job;
    try {
      jobs.reserve(begun_.size());
      writing_.reserve(writing_.size() + 1);
      job = make_job(reservation, batch.result);
    } catch (const std::bad_alloc&) {
      batch.result = before;
      batch.result.refused += reservation->transfer.hashes.size();
    }
    if (job) {
      writing_.push_back(job);
      jobs.push_back(std::move(job));
    } else {
      close_one(batch, lock);
    }
    return true;
  });
  return jobs;
}

// The batch goes on without its unanswered reservations; granted() disowns a later answer.
void Stores::give_up_late(StoreBatch& batch, const Lock& lock) {
  std::erase_if(begun_, [&](const ReservationPtr& reservation) {
    if (reservation->batch.get() != &batch || reservation->answered) return false;
    // A later answer finds the mark, and the grants go back to larderd.
    reservation->abandoned = true;
    batch.result.refused += reservation->transfer.hashes.size();
    close_one(batch, lock);
    return true;
  });
}

StoreResult Stores::finish(std::uint32_t wait_ms, const std::shared_ptr<const copy::Fence>& after) {
  Lock lock(mutex_);
  const BatchPtr batch = take(wait_ms, after, lock);
  answered_.wait_until(lock, batch->deadline, [&] {
    return std::ranges::all_of(
        begun_, [&](const ReservationPtr& one) { return one->batch != batch || one->answered; });
  });
  give_up_late(*batch, lock);
  const std::vector<JobPtr> jobs = make_jobs(*batch, lock);
  lock.unlock();
  LARDER_POINT(store_listed);
  for (const JobPtr& job : jobs) pool_.run(job);
  lock.lock();
  return batch->result;
}

Result<std::uint64_t> Stores::submit(std::uint32_t wait_ms,
                                     std::shared_ptr<const copy::Fence> after) {
  std::vector<JobPtr> jobs;
  BatchPtr batch;
  {
    const Lock lock(mutex_);
    if (submitted_.size() < kMaxSubmitted) {
      batch = take(wait_ms, std::move(after), lock);
      batch->ticket = ++last_ticket_;
      submitted_.push_back(batch);
      jobs = make_jobs(*batch, lock);
    }
  }
  if (!batch) {
    abandon();
    return Status(Code::kResourceExhausted, "too many stores are not polled yet");
  }
  LARDER_POINT(store_submitted);
  start(jobs);
  return batch->ticket;
}

// A job without room in the pool ends at once, and its grants are given back.
void Stores::start(const std::vector<JobPtr>& jobs) noexcept {
  for (const JobPtr& job : jobs) {
    bool taken = false;
    try {
      // A full pool is no reason to wait: the chunks count as refused.
      taken = pool_.submit(job);
    } catch (const std::bad_alloc&) {
    }
    if (!taken) job->finished();
  }
}

std::vector<StoreCompletion> Stores::poll(std::size_t max, std::chrono::milliseconds wait) {
  const auto until = Clock::now() + wait;
  Lock lock(mutex_);
  for (;;) {
    const auto now = Clock::now();
    auto next = until;
    for (const BatchPtr& batch : submitted_) {
      if (batch->open == 0) continue;
      if (batch->deadline <= now)
        give_up_late(*batch, lock);
      else
        next = std::min(next, batch->deadline);
    }
    const bool any =
        std::ranges::any_of(submitted_, [](const BatchPtr& batch) { return batch->open == 0; });
    if (any || submitted_.empty() || now >= until) break;
    // Wakes at the first deadline of a batch as well, since no other thread watches the deadlines.
    batch_ended_.wait_until(lock, next);
  }
  std::vector<StoreCompletion> done;
  std::erase_if(submitted_, [&](const BatchPtr& batch) {
    if (batch->open != 0 || done.size() == max) return false;
    done.push_back({batch->ticket, batch->result});
    return true;
  });
  return done;
}

void Stores::overtake(std::uint64_t ticket) {
  const Lock lock(mutex_);
  for (const BatchPtr& batch : submitted_) {
    if (batch->ticket != ticket) continue;
    batch->overtake();
    give_up_late(*batch, lock);
  }
}

// Called by the last thread to leave a job.
void Stores::ended(StoreJob& job) noexcept {
  StoreResult result;
  try {
    // The messages go out before the batch is closed: poll() reports only sent commits.
    job.settle(result);
  } catch (
      const std::bad_alloc&) {  // larderd asks about such grants later, and asked() disowns them
    result = {};
    result.refused = job.chunks().size();
  }
  {
    const Lock lock(mutex_);
    std::erase_if(writing_, [&](const JobPtr& one) { return one.get() == &job; });
  }
  try {
    writer_stopped(job);
  } catch (const std::bad_alloc&) {  // the lock of the lost session tells larderd too
  }
  const Lock lock(mutex_);
  StoreResult& sum = job.batch().result;
  sum.stored += result.stored;
  sum.refused += result.refused;
  sum.bytes += result.bytes;
  sum.copy_ns += result.copy_ns;
  close_one(job.batch(), lock);
}

// One reservation of the batch has ended.
void Stores::close_one(StoreBatch& batch, const Lock&) {
  --running_;
  if (--batch.open == 0) batch_ended_.notify_all();
}

}  // namespace larder::client
