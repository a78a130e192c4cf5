#include "operator/k8s/queue_order.h"

#include <algorithm>

namespace larder::k8s {

void QueueOrder::add(const Key& key, std::uint64_t now_ms) {
  // A key that is queued or will be queued after its work needs no second place.
  if (!dirty_.emplace(key, now_ms).second) return;
  // A key under work waits for end(): two workers must never reconcile the same object.
  if (!working_.contains(key)) ready_.push_back({key, now_ms});
}

void QueueOrder::add_at(const Key& key, std::uint64_t due_ms, std::uint64_t now_ms) {
  if (due_ms <= now_ms) return add(key, now_ms);
  const auto [found, fresh] = due_of_.emplace(key, due_ms);
  if (!fresh) {
    // The earlier time wins: a retry in 16 minutes must not delay a check in 30 s.
    if (found->second <= due_ms) return;
    due_.erase({found->second, key});
    found->second = due_ms;
  }
  due_.emplace(due_ms, key);
}

void QueueOrder::promote(std::uint64_t now_ms) {
  while (!due_.empty() && due_.begin()->first <= now_ms) {
    const Key key = due_.begin()->second;
    due_.erase(due_.begin());
    due_of_.erase(key);
    add(key, now_ms);
  }
}

std::optional<QueueOrder::Taken> QueueOrder::take(std::uint64_t now_ms) {
  promote(now_ms);
  if (ready_.empty()) return std::nullopt;
  Taken taken = std::move(ready_.front());
  ready_.pop_front();
  // Removed from dirty_ before the work: a change during the work queues the key again.
  dirty_.erase(taken.key);
  working_.insert(taken.key);
  return taken;
}

void QueueOrder::end(const Key& key, std::uint64_t now_ms) {
  if (working_.erase(key) == 0) return;
  if (const auto again = dirty_.find(key); again != dirty_.end()) {
    // The waiting time in the metrics counts from the end of the previous work.
    again->second = now_ms;
    ready_.push_back({key, now_ms});
  }
}

void QueueOrder::done(const Key& key, std::uint64_t now_ms) {
  failures_.erase(key);
  end(key, now_ms);
}

std::uint64_t QueueOrder::retry(const Key& key, std::uint64_t now_ms, std::uint32_t random) {
  constexpr int kMostDoublings = 18;  // beyond the longest backoff
  const int failures = std::min(failures_[key]++, kMostDoublings);
  const std::uint64_t whole = std::min(kLongestBackoffMs, kFirstBackoffMs << failures);
  // Between three quarters and the whole, so keys that failed together do not return together.
  const std::uint64_t backoff_ms = whole - whole / 4 + random % (whole / 4 + 1);
  end(key, now_ms);
  add_at(key, now_ms + backoff_ms, now_ms);
  return backoff_ms;
}

std::optional<std::uint64_t> QueueOrder::next_due_ms() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

}  // namespace larder::k8s
