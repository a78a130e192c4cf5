// Reviewers: a few threads that answer reviews, and the bounded queue before them. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace larder::webhook {

class Reviewers {
 public:
  struct Bounds {
    unsigned threads = 4;
    std::size_t waiting = 64;
    std::size_t waiting_bytes = 4u << 20;  // one alone may have more
  };

  explicit Reviewers(const Bounds& bounds);
  ~Reviewers();  // what waits is not done
  Reviewers(const Reviewers&) = delete;
  Reviewers& operator=(const Reviewers&) = delete;

  // False: too much is waiting already. `bytes` is what the work holds.
  bool take(std::size_t bytes, std::function<void()> work);

 private:
  struct Work {
    std::size_t bytes;
    std::function<void()> work;
  };
  void loop(const std::stop_token& stop);

  const Bounds bounds_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Work> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace larder::webhook
