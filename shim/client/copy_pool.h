// CopyPool: a few native threads that share the parts of copy jobs, first come first served.
//
// Thread-safe. All threads work on the oldest job until all of its parts are claimed; a job that
// yields comes after all others. A job is finished only when every thread has left the job, so no
// thread writes for a finished job. submit() wakes at most one sleeping thread, because a wake
// costs the engine's thread time; the woken thread wakes the next one while there is more work.
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

// kWaitedFor: a request waits for the job. kYields: no request does.
enum class Urgency { kWaitedFor, kYields };

class CopyJob {
 public:
  explicit CopyJob(std::size_t parts, Urgency urgency = Urgency::kWaitedFor)
      : parts_(parts), urgency_(urgency) {}
  virtual ~CopyJob() = default;
  // Copies one part; several threads call this at once. False: the pool starts no further part.
  // Must not throw.
  virtual bool copy(std::size_t part) = 0;
  // Called once, by the last thread to leave. Some parts may not have been started, after a false
  // or because the pool closes. Must not throw.
  virtual void finished() = 0;

 private:
  friend class CopyPool;
  const std::size_t parts_;
  const Urgency urgency_;
  // Guarded by the pool's mutex.
  std::size_t next_ = 0;
  std::size_t running_ = 0;
  bool done_ = false;
};

// Work other than a copy on a thread of the pool; no thread waits for the work. A closing pool
// drops work that has not begun. An exception ends the work, not the engine; work that reports
// failures catches its own exceptions.
class PoolWork final : public CopyJob {
 public:
  explicit PoolWork(std::function<void()> work)
      : CopyJob(1, Urgency::kYields), work_(std::move(work)) {}
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

  // The threads block every signal. Throws std::system_error when a thread cannot be made.
  explicit CopyPool(unsigned threads);
  ~CopyPool() { close(); }

  // Finishes every queued job without starting another part, and joins the threads. A second call
  // has no effect.
  void close();

  std::size_t threads() const { return count_; }

  // False, without any effect: the queue is full or the pool closes. REQUIRES: at least one part.
  bool submit(std::shared_ptr<CopyJob> job);

  // Runs a job on the calling thread and on idle threads of the pool (not if all are bound to one
  // processor). Returns when the job is finished.
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
  std::size_t
      waiting_ = 0,
      woken_ = 0;  // threads that wait for a job; those of them that are woken and not yet running
  std::deque<std::shared_ptr<CopyJob>> queue_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace larder::client
