#include "shim/client/copy_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>

namespace larder::client {

namespace {

// A thread that was bound to one processor hands that on to the threads it makes: they could only take turns with it.
bool bound_to_one_processor() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

}  // namespace

CopyPool::CopyPool(unsigned threads) : one_processor_(bound_to_one_processor()) {
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
  return enqueue(job, lock);
}

void CopyPool::run(const std::shared_ptr<CopyJob>& job) {
  Lock lock(mutex_);
  // Otherwise, and where the queue is full, this thread does it all: to wake another for nothing costs what a small copy does.
  if (!one_processor_ && job->parts_ > 1) enqueue(job, lock);
  while (job->next_ < job->parts_) run_part(job, lock);
  finished_.wait(lock, [&] { return job->done_; });
}

bool CopyPool::enqueue(const std::shared_ptr<CopyJob>& job, Lock&) {
  if (closing_ || queue_.size() == kMaxQueued) return false;
  queue_.push_back(job);
  wake_.notify_all();
  return true;
}

void CopyPool::work() {
  pthread_setname_np(pthread_self(), "larder-copy");
  Lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::shared_ptr<CopyJob> job = queue_.front();
    run_part(job, lock);
  }
}

// REQUIRES: the job has an unclaimed part.
void CopyPool::run_part(const std::shared_ptr<CopyJob>& job, Lock& lock) {
  const std::size_t part = job->next_++;
  ++job->running_;
  if (job->next_ == job->parts_) end_claims(job);
  lock.unlock();
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
  if (job->next_ < job->parts_ || job->running_ > 0 || job->done_) return;
  job->running_ = 1;  // keeps everybody else out of here
  lock.unlock();
  job->finished();
  lock.lock();
  job->running_ = 0;
  job->done_ = true;
  finished_.notify_all();
}

}  // namespace larder::client
