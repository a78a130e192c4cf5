#include "shim/client/copy_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>

namespace larder::client {

namespace {

// New threads inherit the processors of their maker. Bound to one processor, the pool's threads
// could only take turns with the caller.
bool bound_to_one_processor() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

}  // namespace

CopyPool::CopyPool(unsigned threads) : one_processor_(bound_to_one_processor()), count_(threads) {
  // The engine's signal handlers must not run on these threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back(&CopyPool::work, this);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    close();
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void CopyPool::close() {
  Lock lock(mutex_);
  closing_ = true;
  // Each queued job still ends: a load must have its one completion, even at the close.
  while (!queue_.empty()) {
    const std::shared_ptr<CopyJob> job = queue_.front();
    end_claims(job);
    finish_if_left(job, lock);
  }
  lock.unlock();
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool CopyPool::submit(std::shared_ptr<CopyJob> job) {
  Lock lock(mutex_);
  if (!enqueue(job, lock)) return false;
  wake_one(lock);
  return true;
}

void CopyPool::run(const std::shared_ptr<CopyJob>& job) {
  Lock lock(mutex_);
  // Otherwise, and with a full queue, the calling thread copies alone: waking another thread costs
  // as much as a small copy.
  if (!one_processor_ && job->parts_ > 1 && enqueue(job, lock)) {
    wake_one(lock);
    lock.lock();
  }
  while (job->next_ < job->parts_) run_part(job, lock);
  // Other threads may still be inside of their parts, and use the caller's pages.
  finished_.wait(lock, [&] { return job->done_; });
}

bool CopyPool::enqueue(const std::shared_ptr<CopyJob>& job, const Lock&) {
  // A full queue refuses at once: an engine's thread must not wait for copies of others.
  if (closing_ || queue_.size() == kMaxQueued) return false;
  auto at = queue_.end();
  if (job->urgency_ == Urgency::kWaitedFor)
    // A request waits for a load, and no request waits for a store. The order among loads stays.
    while (at != queue_.begin() && (*std::prev(at))->urgency_ == Urgency::kYields) --at;
  queue_.insert(at, job);
  return true;
}

// Releases the lock first, because the woken thread takes the lock.
void CopyPool::wake_one(Lock& lock) {
  const bool any = waiting_ > woken_;
  // Counts the wake-ups under way, or each submit() would wake one more thread for the same work.
  if (any) ++woken_;
  lock.unlock();
  if (any) wake_.notify_one();
}

void CopyPool::work() {
  pthread_setname_np(pthread_self(), "larder-copy");
  // A woken batch thread waits for a free processor or the end of a time slice (sched(7)). Else the
  // kernel may put the copy before the engine's thread, which has just submitted the copy.
  const sched_param no_priority{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &no_priority);
  Lock lock(mutex_);
  for (;;) {
    const bool slept = sleep(lock);
    // Only a closing pool wakes a thread without a job.
    if (queue_.empty()) return;
    if (slept && (queue_.size() > 1 || queue_.front()->parts_ - queue_.front()->next_ > 1)) {
      wake_one(lock);
      lock.lock();
      if (queue_.empty()) continue;
    }
    const std::shared_ptr<CopyJob> job = queue_.front();
    run_part(job, lock);
  }
}

// Sleeps until there is a job or the pool closes. False: there was a job already.
bool CopyPool::sleep(Lock& lock) {
  bool slept = false;
  for (; !closing_ && queue_.empty(); slept = true) {
    ++waiting_;
    wake_.wait(lock);
    --waiting_;
    if (woken_ > 0) --woken_;
  }
  return slept;
}

// REQUIRES: the job has an unclaimed part.
void CopyPool::run_part(const std::shared_ptr<CopyJob>& job, Lock& lock) {
  const std::size_t part = job->next_++;
  ++job->running_;
  if (job->next_ == job->parts_) end_claims(job);
  lock.unlock();
  // Without the mutex: a part takes milliseconds.
  const bool go_on = job->copy(part);
  lock.lock();
  --job->running_;
  if (!go_on) end_claims(job);
  finish_if_left(job, lock);
}

void CopyPool::end_claims(const std::shared_ptr<CopyJob>& job) {
  job->next_ = job->parts_;
  const auto at = std::find(queue_.begin(), queue_.end(), job);
  if (at != queue_.end()) queue_.erase(at);
}

void CopyPool::finish_if_left(const std::shared_ptr<CopyJob>& job, Lock& lock) {
  if (job->next_ < job->parts_ || job->running_ > 0 || job->done_)
    return;           // mutation: load-done-last
  job->running_ = 1;  // keeps other threads out of this function
  lock.unlock();
  job->finished();
  lock.lock();
  job->running_ = 0;
  job->done_ = true;
  finished_.notify_all();
}

}  // namespace larder::client
