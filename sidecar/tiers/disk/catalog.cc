#include "sidecar/tiers/disk/catalog.h"

#include <algorithm>
#include <array>
#include <bit>

namespace larder::disk {
namespace {

constexpr std::size_t kLeastCells = 1024;
// Lookups of other threads wait for this mutex. The bound keeps their wait far below a
// millisecond, even while a region of many small chunks is evicted.
constexpr std::size_t kNodesAtOnce = 4096;  // nodes for one lock of the mutex
// The start enters millions of records in random cells, one cache miss each. Prefetching a batch
// before the first insert lets those misses overlap.
constexpr std::size_t kKeysAtOnce = 64;  // keys whose cache misses overlap

}  // namespace

void Catalog::reset(std::uint32_t regions) {
  {
    const std::lock_guard lock(mutex_);
    nodes_.clear();
    cells_.assign(kLeastCells, {});
    heads_.assign(regions, kNone);
    free_ = kNone;
    chunks_ = slot_bytes_ = 0;
  }
  // Outside of the mutex: the tables are empty already, so find() cannot contradict the listener.
  if (residents_ != nullptr) residents_->removed_all();
}

// A hash of all fields. A hand-made mix of the words put all keys of a family into one place.
std::uint32_t Catalog::tag_of(const tiers::ChunkKey& key) {
  const std::uint64_t words[] = {key.namespace_id.lo, key.namespace_id.hi, key.hash.lo, key.hash.hi,
                                 std::uint64_t{key.shard} << 16 | key.group};
  return static_cast<std::uint32_t>(protocol::unit_digest(words, sizeof(words)));
}

// Linear probing. The tag decides nearly every comparison, so a search reads a node, another
// cache miss, only for its own key. The table is at most half full, so every search ends.
std::size_t Catalog::cell_of(const tiers::ChunkKey& key, std::uint32_t tag) const {
  const std::size_t mask = cells_.size() - 1;
  std::size_t cell = tag & mask;
  while (cells_[cell].node != kNone &&
         (cells_[cell].tag != tag || nodes_[cells_[cell].node].record.key != key))
    cell = (cell + 1) & mask;
  return cell;
}

// Only this thread writes the tables, so it may read them without the mutex. The mutex is held for
// the exchange; the old tables are freed afterwards.
void Catalog::make_room(std::uint64_t more) {
  // The growth happens before the insert takes the mutex. A rehash of millions of cells under the
  // mutex would stop the lookups of all engines.
  if (2 * (chunks_ + more) > cells_.size()) {
    const std::size_t mask = std::bit_ceil(2 * (chunks_ + more)) - 1;
    std::vector<Cell> bigger(mask + 1);
    for (const Cell& cell : cells_) {
      if (cell.node == kNone) continue;
      std::size_t at = cell.tag & mask;
      while (bigger[at].node != kNone) at = (at + 1) & mask;
      bigger[at] = cell;
    }
    const std::lock_guard lock(mutex_);
    cells_.swap(bigger);
  }
  const std::uint64_t free = nodes_.size() - chunks_;
  const std::uint64_t nodes = nodes_.size() + more - std::min(more, free);
  if (nodes > nodes_.capacity()) {
    std::vector<Node> bigger;
    // A doubled capacity keeps the copies amortized. recover() reserves the exact number before.
    bigger.reserve(std::max({std::uint64_t{kLeastCells}, 2 * nodes_.size(), nodes}));
    bigger.insert(bigger.end(), nodes_.begin(), nodes_.end());
    const std::lock_guard lock(mutex_);
    nodes_.swap(bigger);
  }
}

void Catalog::link(std::uint32_t node, std::uint32_t region) {
  nodes_[node].region = region;
  nodes_[node].previous = kNone;
  nodes_[node].next = heads_[region];
  if (heads_[region] != kNone) nodes_[heads_[region]].previous = node;
  heads_[region] = node;
}

void Catalog::unlink(std::uint32_t node) {
  const Node& gone = nodes_[node];
  if (gone.previous != kNone)
    nodes_[gone.previous].next = gone.next;
  else
    heads_[gone.region] = gone.next;
  if (gone.next != kNone) nodes_[gone.next].previous = gone.previous;
}

// Moves later cells of the chain up, so that no search ends too early.
void Catalog::erase_cell(std::size_t cell) {
  const std::size_t mask = cells_.size() - 1;
  std::size_t hole = cell;
  for (std::size_t at = (hole + 1) & mask; cells_[at].node != kNone; at = (at + 1) & mask) {
    const std::size_t home = cells_[at].tag & mask;
    // Knuth's Algorithm R (TAOCP 6.4): no tombstone cells, so searches stay short in a table that
    // is full for months.
    if (((at - home) & mask) < ((at - hole) & mask))
      continue;  // the chain of this cell begins behind the hole
    cells_[hole] = cells_[at];
    hole = at;
  }
  cells_[hole] = {};
}

void Catalog::erase_node(std::uint32_t node) {
  if (residents_ != nullptr)
    residents_->removed(nodes_[node].record.key);  // mutation: residents-told
  erase_cell(cell_of(nodes_[node].record.key));
  unlink(node);
  --chunks_;
  slot_bytes_ -= nodes_[node].record.facts.slot_bytes();
  nodes_[node].region = kNone;
  nodes_[node].next = free_;
  free_ = node;
}

// Enters a record, in place of an earlier record of the key.
void Catalog::enter(const Record& record, std::uint32_t region, std::size_t cell,
                    std::uint32_t tag) {
  std::uint32_t node = cells_[cell].node;
  // The same key again, with a newer record: the node moves to the region of that record. The old
  // bytes stay in the file until their region is reused.
  if (node != kNone) {
    unlink(node);
    --chunks_;
    slot_bytes_ -= nodes_[node].record.facts.slot_bytes();
  } else if (free_ != kNone) {
    node = free_;
    free_ = nodes_[node].next;
  } else {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  cells_[cell] = {node, tag};
  nodes_[node].record = record;
  link(node, region);
  ++chunks_;
  slot_bytes_ += record.facts.slot_bytes();
}

std::optional<Located> Catalog::find(const tiers::ChunkKey& key) const {
  const std::lock_guard lock(mutex_);
  // The list has one entry for each drop in progress, so it is nearly always empty.
  if (hidden_all_ != 0 || std::ranges::find(hidden_, key.namespace_id) != hidden_.end())
    return std::nullopt;
  const std::uint32_t node = cells_[cell_of(key)].node;
  if (node == kNone) return std::nullopt;
  return Located{nodes_[node].record, nodes_[node].region};
}

void Catalog::insert(const Record& record, std::uint32_t region) {
  // Before the lock: make_room() takes the mutex itself, for the exchange of the tables only.
  make_room(1);
  const std::uint32_t tag = tag_of(record.key);
  const std::lock_guard lock(mutex_);
  enter(record, region, cell_of(record.key, tag), tag);
  if (residents_ != nullptr) residents_->added(record.key);
}

void Catalog::insert_later(std::span<const Record> records, std::uint32_t region,
                           const RegionTable& table) {
  make_room(records.size());
  std::array<std::uint32_t, kKeysAtOnce> tags{};
  std::array<tiers::ChunkKey, kKeysAtOnce> added;
  while (!records.empty()) {
    const std::span<const Record> batch = records.first(std::min(records.size(), kKeysAtOnce));
    records = records.subspan(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      tags[i] = tag_of(batch[i].key);
      __builtin_prefetch(&cells_[tags[i] & (cells_.size() - 1)], 1);
    }
    std::size_t count = 0;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::size_t cell = cell_of(batch[i].key, tags[i]);
      const Node* known = cells_[cell].node != kNone ? &nodes_[cells_[cell].node] : nullptr;
      // Footers arrive in the order of the device, not in the order of the appends. Only the
      // position tells which of two records of a key is newer.
      const Position at{table[region].sequence, batch[i].block};
      if (known != nullptr && Position{table[known->region].sequence, known->record.block} >
                                  at)  // mutation: last-append
        continue;
      enter(batch[i], region, cell, tags[i]);
      added[count++] = batch[i].key;
    }
    if (residents_ != nullptr) residents_->added_all({added.data(), count});
  }
}

bool Catalog::erase(const tiers::ChunkKey& key, std::uint32_t region, std::uint32_t block) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t node = cells_[cell_of(key)].node;
  // A newer record of the key may have replaced the caller's record during its read or write. The
  // newer record stays.
  if (node == kNone || nodes_[node].region != region || nodes_[node].record.block != block)
    return false;
  erase_node(node);
  return true;
}

std::uint64_t Catalog::erase_region(std::uint32_t region) {
  std::uint64_t erased = 0;
  // The mutex is released after each batch. find() may still see a part of the region meanwhile;
  // the bytes are intact until the first append.
  for (bool more = true; more;) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kNodesAtOnce && heads_[region] != kNone; ++i, ++erased)
      erase_node(heads_[region]);
    more = heads_[region] != kNone;
  }
  return erased;
}

std::uint64_t Catalog::erase_namespace(const protocol::NamespaceId& id) {
  std::uint64_t erased = 0;
  // Nodes have no list by namespace: drops are rare, and such a list would cost 8 bytes for every
  // chunk. Inserts by the same thread cannot happen in between.
  for (std::size_t at = 0;; at += kNodesAtOnce) {
    const std::lock_guard lock(mutex_);
    const std::size_t end = std::min(at + kNodesAtOnce, nodes_.size());
    for (std::size_t i = at; i < end; ++i) {
      if (nodes_[i].region == kNone || nodes_[i].record.key.namespace_id != id) continue;
      erase_node(static_cast<std::uint32_t>(i));
      ++erased;
    }
    if (end == nodes_.size()) return erased;
  }
}

// A drop hides its namespace in the caller's thread, before the thread of the tier has erased the
// chunks. Thus a lookup right after the drop misses.
void Catalog::hide(const protocol::NamespaceId& id) {
  const std::lock_guard lock(mutex_);
  hidden_.push_back(id);
}

void Catalog::show(const protocol::NamespaceId& id) {
  const std::lock_guard lock(mutex_);
  if (const auto at = std::ranges::find(hidden_, id); at != hidden_.end()) hidden_.erase(at);
}

// A counter and not a flag: a second clear() may arrive while the first one is being erased.
void Catalog::hide_all() {
  const std::lock_guard lock(mutex_);
  ++hidden_all_;
}

void Catalog::show_all() {
  const std::lock_guard lock(mutex_);
  --hidden_all_;
}

std::uint64_t Catalog::chunks() const {
  const std::lock_guard lock(mutex_);
  return chunks_;
}

std::uint64_t Catalog::slot_bytes() const {
  const std::lock_guard lock(mutex_);
  return slot_bytes_;
}

}  // namespace larder::disk
