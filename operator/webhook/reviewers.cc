#include "operator/webhook/reviewers.h"

#include <utility>

namespace larder::webhook {

// Several threads: one review may wait about two seconds for the API server, and others go on.
Reviewers::Reviewers(const Bounds& bounds) : bounds_(bounds) {
  for (unsigned i = 0; i < bounds_.threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { loop(stop); });
}

// Stop all first: the joins of ~jthread alone would stop one thread after the other.
Reviewers::~Reviewers() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

// Invariant: clients cannot make the server hold unbounded memory. Reviews and their bytes are
// bounded here, connections and their bytes by http::Limits, and values by PodReview.
bool Reviewers::take(std::size_t bytes, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= bounds_.waiting ||
        // One review larger than the bound finds an empty queue: otherwise the largest pods would
        // never get a cache.
        (!waiting_.empty() && waiting_bytes_ + bytes > bounds_.waiting_bytes))
      return false;
    waiting_bytes_ += bytes;
    waiting_.push_back({bytes, std::move(work)});
  }
  changed_.notify_one();
  return true;
}

void Reviewers::loop(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
    if (stop.stop_requested()) return;
    const Work next = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= next.bytes;
    // The review runs outside the lock.
    lock.unlock();
    next.work();
  }
}

}  // namespace larder::webhook
