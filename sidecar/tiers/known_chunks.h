// KnownChunks: the chunks that a shared store is known to have, from puts, gets and probes. The store
// may have lost a known chunk since. `Record` has a `key` and `facts`, and what else the tier keeps.
//
// Thread-safe: one mutex, held for a few map operations. The thread of the tier writes; any thread
// reads and hides.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sidecar/tiers/tier.h"

namespace larder::tiers {

// One digest over all fields, as in the catalog of the disk tier: a hand-made mix put the keys of a
// family into one place.
struct ChunkKeyHash {
  std::size_t operator()(const ChunkKey& key) const {
    const std::uint64_t words[] = {key.namespace_id.lo, key.namespace_id.hi, key.hash.lo,
                                   key.hash.hi, std::uint64_t{key.shard} << 16 | key.group};
    return static_cast<std::size_t>(protocol::unit_digest(words, sizeof(words)));
  }
};

template <class Record>
class KnownChunks {
 public:
  // Beyond `most` the oldest chunks are forgotten. `residents`, or nullptr, outlives this object.
  KnownChunks(std::size_t most, Residents* residents) : most_(most), residents_(residents) {}

  // Chunks of a hidden namespace and expired chunks are not found.
  std::optional<Record> find(const ChunkKey& key, std::uint64_t now_ns) const;
  // Replaces a chunk with the same key. Not found from `until_ns` on.
  void insert(const Record& record, std::uint64_t until_ns = UINT64_MAX);
  // Erases a chunk, with `generation` only a chunk of this generation. Returns whether it was
  // known.
  bool erase(const ChunkKey& key, std::optional<std::uint64_t> generation = {});
  std::uint64_t erase_namespace(const protocol::NamespaceId& id);
  std::uint64_t erase_all();

  // Hides chunks between the request of a drop and its end on the server. Calls nest.
  void hide(const protocol::NamespaceId& id);
  void show(const protocol::NamespaceId& id);
  void hide_all();
  void show_all();
  bool hidden(const protocol::NamespaceId& id) const;

  std::uint64_t chunks() const;
  std::uint64_t slot_bytes() const;

 private:
  static constexpr std::size_t kNodesAtOnce = 256;  // bounds the wait of a find()
  static constexpr std::chrono::microseconds kPause{20};

  struct Node {
    Record record;
    std::uint64_t until_ns = UINT64_MAX;
  };
  using Nodes = std::list<Node>;
  bool hidden_locked(const protocol::NamespaceId& id) const;
  void erase_locked(typename Nodes::iterator node, Nodes& gone);

  const std::size_t most_;
  Residents* residents_;
  mutable std::mutex mutex_;
  Nodes nodes_;  // oldest first
  std::unordered_map<ChunkKey, typename Nodes::iterator, ChunkKeyHash> by_key_;
  std::vector<protocol::NamespaceId> hidden_;
  std::uint32_t hidden_all_ = 0;
  std::uint64_t slot_bytes_ = 0;
};

template <class Record>
bool KnownChunks<Record>::hidden_locked(const protocol::NamespaceId& id) const {
  return hidden_all_ != 0 || std::ranges::find(hidden_, id) != hidden_.end();
}

template <class Record>
std::optional<Record> KnownChunks<Record>::find(const ChunkKey& key, std::uint64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  // An expired chunk stays in the list until its turn as the oldest: only the thread of the
  // tier removes chunks.
  if (found == by_key_.end() || hidden_locked(key.namespace_id) ||
      found->second->until_ns <= now_ns)
    return std::nullopt;
  return found->second->record;
}

template <class Record>
void KnownChunks<Record>::insert(const Record& record, std::uint64_t until_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(record.key);
  if (found != by_key_.end()) {
    slot_bytes_ -= found->second->record.facts.slot_bytes();
    *found->second = {record, until_ns};
    // A chunk just stored or probed is the youngest again. Iterators of a list stay valid over
    // splice().
    nodes_.splice(nodes_.end(), nodes_, found->second);
  } else {
    Nodes gone;
    // A forgotten chunk is only unknown: a probe of the server finds the chunk again.
    if (by_key_.size() >= most_ && !nodes_.empty()) erase_locked(nodes_.begin(), gone);
    nodes_.push_back({record, until_ns});
    by_key_[record.key] = std::prev(nodes_.end());
  }
  slot_bytes_ += record.facts.slot_bytes();
  if (residents_ != nullptr) residents_->added(record.key);
}

template <class Record>
void KnownChunks<Record>::erase_locked(typename Nodes::iterator node, Nodes& gone) {
  if (residents_ != nullptr) residents_->removed(node->record.key);
  slot_bytes_ -= node->record.facts.slot_bytes();
  by_key_.erase(node->record.key);
  // The caller frees the nodes after it has given the mutex back.
  gone.splice(gone.end(), nodes_, node);
}

template <class Record>
bool KnownChunks<Record>::erase(const ChunkKey& key, std::optional<std::uint64_t> generation) {
  Nodes gone;
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  // A newer record of the key is not concerned by a report about older bytes.
  if (generation && found->second->record.facts.generation != *generation) return false;
  erase_locked(found->second, gone);
  return true;
}

template <class Record>
std::uint64_t KnownChunks<Record>::erase_namespace(const protocol::NamespaceId& id) {
  std::uint64_t erased = 0;
  auto node = nodes_.begin();  // only this thread changes the list
  // find() runs in other threads, on the path of a lookup. The steps bound the wait.
  for (bool more = true; more;) {
    Nodes gone;  // freed without the mutex, because it takes long
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < kNodesAtOnce && node != nodes_.end(); ++i) {
        const auto next = std::next(node);
        if (node->record.key.namespace_id == id) erase_locked(node, gone);
        node = next;
      }
      more = node != nodes_.end();
    }
    erased += gone.size();
    // After a mere yield this thread would take the mutex again before a waiting thread wakes up.
    if (more) std::this_thread::sleep_for(kPause);
  }
  return erased;
}

template <class Record>
std::uint64_t KnownChunks<Record>::erase_all() {
  Nodes nodes;  // freed without the mutex, because it takes long
  decltype(by_key_) by_key;
  const std::lock_guard lock(mutex_);
  nodes.swap(nodes_);
  by_key.swap(by_key_);
  slot_bytes_ = 0;
  if (residents_ != nullptr) residents_->removed_all();
  return nodes.size();
}

template <class Record>
void KnownChunks<Record>::hide(const protocol::NamespaceId& id) {
  const std::lock_guard lock(mutex_);
  // A list and not a set: drops nest, and each show() takes away one entry.
  hidden_.push_back(id);
}

template <class Record>
void KnownChunks<Record>::show(const protocol::NamespaceId& id) {
  const std::lock_guard lock(mutex_);
  if (const auto at = std::ranges::find(hidden_, id); at != hidden_.end()) hidden_.erase(at);
}

template <class Record>
void KnownChunks<Record>::hide_all() {
  const std::lock_guard lock(mutex_);
  ++hidden_all_;
}

template <class Record>
void KnownChunks<Record>::show_all() {
  const std::lock_guard lock(mutex_);
  --hidden_all_;
}

template <class Record>
bool KnownChunks<Record>::hidden(const protocol::NamespaceId& id) const {
  const std::lock_guard lock(mutex_);
  return hidden_locked(id);
}

template <class Record>
std::uint64_t KnownChunks<Record>::chunks() const {
  const std::lock_guard lock(mutex_);
  return nodes_.size();
}

template <class Record>
std::uint64_t KnownChunks<Record>::slot_bytes() const {
  const std::lock_guard lock(mutex_);
  return slot_bytes_;
}

}  // namespace larder::tiers
