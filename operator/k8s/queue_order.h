// QueueOrder: the order of keys in a work queue. Pure: times (ms) and random numbers are arguments.
// Thread-compatible.
//
// A key is in one of four states: absent, queued, working, or working and queued again. In addition
// a key may be due at one later time, the earliest one requested.
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
  // The key to work on now, and the time at which it was queued.
  struct Taken {
    Key key;
    std::uint64_t added_ms;
  };
  std::optional<Taken> take(std::uint64_t now_ms);
  // Ends the work on `key`. A key that was added meanwhile is queued again.
  void done(const Key& key, std::uint64_t now_ms);
  // Ends the work on `key` after a failure, and returns the backoff: 5 ms, doubled with each
  // failure in a row, a quarter of it random. `random`: any number.
  std::uint64_t retry(const Key& key, std::uint64_t now_ms, std::uint32_t random);

  std::size_t queued() const { return ready_.size(); }
  std::size_t working() const { return working_.size(); }
  std::size_t later() const { return due_of_.size(); }
  // The earliest time at which a later key is due.
  std::optional<std::uint64_t> next_due_ms() const;

 private:
  void end(const Key& key, std::uint64_t now_ms);
  void promote(std::uint64_t now_ms);

  std::deque<Taken> ready_;
  std::map<Key, std::uint64_t> dirty_;  // queued now or after the current work, since when
  std::set<Key> working_;
  std::set<std::pair<std::uint64_t, Key>> due_;
  std::map<Key, std::uint64_t> due_of_;
  std::map<Key, int> failures_;
};

}  // namespace larder::k8s
