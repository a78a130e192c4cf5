// CopyPool: a few native threads that share the parts of copy jobs, first come first served.
//
// Thread-safe. All threads work on the oldest job until its parts are all claimed; jobs that yield come behind all others. A job is finished
// only when every thread has left it: then, and only then, nobody writes for it any more. Who submits wakes one thread at most, and only
// where one sleeps; that one wakes the next while there is more to do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace larder::client {

// kYields: nobody waits for it, as somebody waits for others.
enum class Urgency { kWaitedFor, kYields };

class CopyJob {
 public:
  explicit CopyJob(std::size_t parts, Urgency urgency = Urgency::kWaitedFor) : parts_(parts), urgency_(urgency) {}
  virtual ~CopyJob() = default;
  // Copies one part; called by several threads at once. False: no further part is started. Must not throw.
  virtual bool copy(std::size_t part) = 0;
  // Once, by the last thread to leave. Parts may not have been started: after a false, or because the pool closes. Must not throw.
  virtual void finished() = 0;

 private:
  friend class CopyPool;
  const std::size_t parts_;
  const Urgency urgency_;
  // Under the pool's mutex.
  std::size_t next_ = 0;
  std::size_t running_ = 0;
  bool done_ = false;
};

// Work that is no copy, on a thread of the pool, without a thread that waits for it. A pool that closes first drops it. An exception ends the work alone, and
// not the engine: work that has to tell of a failure catches it itself.
class PoolWork final : public CopyJob {
 public:
  explicit PoolWork(std::function<void()> work) : CopyJob(1, Urgency::kYields), work_(std::move(work)) {}
  bool copy(std::size_t) override {
    try {
      work_();
    } catch (const std::exception&) {  // out of memory, most likely
    }
    return true;
  }
  void finished() override { work_ = nullptr; }

 private:
  std::function<void()> work_;
};

class CopyPool {
 public:
  static constexpr std::size_t kMaxQueued = 1024;

  // The threads block every signal. Throws std::system_error when one cannot be made.
  explicit CopyPool(unsigned threads);
  ~CopyPool() { close(); }

  // Finishes every job that is queued without starting another part, and joins the threads. Twice is once.
  void close();

  std::size_t threads() const { return count_; }

  // False, and nothing happened: the queue is full or the pool closes. REQUIRES: at least one part.
  bool submit(std::shared_ptr<CopyJob> job);

  // Runs a job with the calling thread and as many of the pool's as come to help (none where all are bound to one processor);
  // returns when it is finished.
  void run(const std::shared_ptr<CopyJob>& job);

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work();
  bool enqueue(const std::shared_ptr<CopyJob>& job, const Lock& lock);
  void wake_one(Lock& lock);
  bool sleep(Lock& lock);
  void run_part(const std::shared_ptr<CopyJob>& job, Lock& lock);
  void end_claims(const std::shared_ptr<CopyJob>& job);
  void finish_if_left(const std::shared_ptr<CopyJob>& job, Lock& lock);

  const bool one_processor_;
  const std::size_t count_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  std::size_t waiting_ = 0, woken_ = 0;  // threads that wait for a job; those of them that were told of one and have not come yet
  std::deque<std::shared_ptr<CopyJob>> queue_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace larder::client
