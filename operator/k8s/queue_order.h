// QueueOrder: which key of a work queue comes next. Pure: times (ms) and chance come in. Thread-compatible.
//
// A key is in one of these states: nowhere, queued, working, or working and queued again. Besides, it may be due later (once: the
// earliest time counts).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "operator/k8s/work_queue.h"

namespace larder::k8s {

class QueueOrder {
 public:
  static constexpr std::uint64_t kFirstBackoffMs = 5, kLongestBackoffMs = 16 * 60 * 1000;

  void add(const Key& key, std::uint64_t now_ms);
  void add_at(const Key& key, std::uint64_t due_ms, std::uint64_t now_ms);
  // The key to work on now, its place in time with it.
  struct Taken {
    Key key;
    std::uint64_t added_ms;
  };
  std::optional<Taken> take(std::uint64_t now_ms);
  // The work on `key` has ended. Where it was added meanwhile it is queued again.
  void done(const Key& key, std::uint64_t now_ms);
  // The same after a failure: it comes again after its backoff, which is returned: 5 ms doubled with each failure in a row, a quarter
  // of it by chance. `random`: any number.
  std::uint64_t retry(const Key& key, std::uint64_t now_ms, std::uint32_t random);

  std::size_t queued() const { return ready_.size(); }
  std::size_t working() const { return working_.size(); }
  std::size_t later() const { return due_of_.size(); }
  // When the next key that is due later is due.
  std::optional<std::uint64_t> next_due_ms() const;

 private:
  void end(const Key& key, std::uint64_t now_ms);
  void promote(std::uint64_t now_ms);

  std::deque<Taken> ready_;
  std::map<Key, std::uint64_t> dirty_;  // queued, or to be queued when its work has ended; since when
  std::set<Key> working_;
  std::set<std::pair<std::uint64_t, Key>> due_;
  std::map<Key, std::uint64_t> due_of_;
  std::map<Key, int> failures_;
};

}  // namespace larder::k8s
