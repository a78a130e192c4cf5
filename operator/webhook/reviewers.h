// Reviewers: a few threads that answer reviews, with a bounded queue. Thread-safe.
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
    std::size_t waiting_bytes = 4u << 20;  // an empty queue takes a larger review
  };

  explicit Reviewers(const Bounds& bounds);
  ~Reviewers();  // drops waiting reviews
  Reviewers(const Reviewers&) = delete;
  Reviewers& operator=(const Reviewers&) = delete;

  // False: the queue is full. `bytes`: memory held by `work`.
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
