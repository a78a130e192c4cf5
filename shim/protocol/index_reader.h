// IndexReader: lock-free look-up in a mapped index. Used by engines and, for its own finds,
// by the sidecar.
//
// Thread-safe: any number of readers beside the one writer. No allocation, no system call, bounded
// probes. The mapping belongs to the caller and outlives the reader. The reader checks offsets and
// sizes from the region against the bounds that open() validated. A torn or hostile entry, an entry
// outside the arena and an entry of another key are therefore misses, never stray accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shim/base/status.h"
#include "shim/base/test_point.h"
#include "shim/protocol/index_layout.h"
#include "shim/protocol/version.h"

namespace larder::protocol {

class IndexReader {
 public:
  IndexReader() = default;

  // Validates the header of a mapped index of size_bytes.
  static Result<IndexReader> open(const std::byte* data, std::size_t size_bytes) {
    if (size_bytes < sizeof(IndexHeader))
      return Status(Code::kDataLoss, "index: shorter than its header");
    const auto* header = reinterpret_cast<const IndexHeader*>(data);
    if (header->magic != kIndexMagic) return Status(Code::kDataLoss, "index: wrong magic");
    if (header->version_major != kVersionMajor)
      return Status(Code::kUnsupported, "index: unknown major version");
    const std::uint64_t entries = header->entry_count;
    const std::uint64_t buckets = header->bucket_count;
    if (entries == 0 || entries > (1ULL << 31) || buckets < 2 || buckets > (1ULL << 31) ||
        (buckets & (buckets - 1)) != 0)
      return Status(Code::kDataLoss, "index: impossible counts");
    const IndexSizes sizes = index_sizes(entries, buckets);
    if (sizes.total_bytes > size_bytes || sizes.entries_offset != header->entries_offset ||
        sizes.buckets_offset != header->buckets_offset ||
        sizes.namespaces_offset != header->namespaces_offset)
      return Status(Code::kDataLoss, "index: offsets do not match its counts");
    IndexReader reader;
    reader.header_ = header;
    reader.entries_ = reinterpret_cast<const IndexEntry*>(data + sizes.entries_offset);
    reader.buckets_ = reinterpret_cast<const Bucket*>(data + sizes.buckets_offset);
    reader.entry_count_ = entries;
    reader.bucket_count_ = buckets;
    reader.arena_bytes_ = header->arena_bytes;
    return reader;
  }

  bool valid() const { return header_ != nullptr; }
  bool dead() const { return header_->dead.load(std::memory_order_acquire) != 0; }
  // Dead, and no larderd will serve the arena again.
  bool gone() const {
    return header_->dead.load(std::memory_order_acquire) ==
           static_cast<std::uint64_t>(IndexRetirement::kGone);
  }
  std::uint64_t epoch() const { return header_->epoch; }
  // Bytes of the arena, from its start, that have pages. Grows.
  std::uint64_t touched_bytes() const {
    return header_->touched_bytes.load(std::memory_order_acquire);
  }
  std::uint64_t entry_count() const { return entry_count_; }

  // The committed entry of `key`; nullopt on a miss.
  std::optional<EntryView> find(const Key& key) const {
    const KeyPlace place = key_place(key, bucket_count_);
    for (const std::uint64_t bucket : place.bucket) {
      for (const AtomicU64& cell : buckets_[bucket].cells) {
        const std::uint64_t value = cell.load(std::memory_order_acquire);
        if (value == 0 || high_half(value) != place.tag) continue;
        std::optional<EntryView> view = read(low_half(value) - 1);
        if (view && view->key == key) return view;
      }
    }
    return std::nullopt;
  }

  // The look-up of one key in a batch. Each step prefetches the memory that the next step reads, so
  // the cache misses of a batch overlap.
  struct Probe {
    Key key;
    KeyPlace place;
    std::uint32_t guess;  // the slot that the first bucket names for the key's tag, or entry_count_
  };

  // First step: prefetches the key's first bucket. The second bucket is seldom needed: a key goes
  // there when the first one is nearly full.
  Probe start(const Key& key) const {
    const Probe probe{key, key_place(key, bucket_count_), 0};
    __builtin_prefetch(&buckets_[probe.place.bucket[0]]);
    return probe;
  }

  // Second step: searches the first bucket without a branch for each cell, and prefetches the entry
  // or the second bucket.
  void advance(Probe& probe) const {
    const Bucket& bucket = buckets_[probe.place.bucket[0]];
    std::uint64_t cell = 0;
    for (const AtomicU64& candidate : bucket.cells) {
      const std::uint64_t value = candidate.load(std::memory_order_acquire);
      cell = high_half(value) == probe.place.tag ? value : cell;
    }
    probe.guess = low_half(cell) - 1;
    __builtin_prefetch(probe.guess < entry_count_
                           ? static_cast<const void*>(&entries_[probe.guess])
                           : static_cast<const void*>(&buckets_[probe.place.bucket[1]]));
  }

  // Last step: whether the key is committed.
  bool finish(const Probe& probe) const { return holds(probe.guess, probe.key) || find(probe.key); }

  // A consistent copy of a committed entry; nullopt for any other entry.
  std::optional<EntryView> read(std::uint32_t slot) const {
    if (slot >= entry_count_) return std::nullopt;
    const IndexEntry& entry = entries_[slot];
    for (int attempt = 0; attempt < kProbeRetries; ++attempt) {
      const std::uint64_t word = entry.word.load(std::memory_order_acquire);
      if (word_state(word) != SlotState::kCommitted) return std::nullopt;
      LARDER_POINT(word_read);
      const EntryView view = fields(entry, slot, word_generation(word));
      if (entry.word.load(std::memory_order_acquire) != word)
        continue;  // mutation: entry-one-generation
      if (view.offset_bytes > arena_bytes_ || view.payload_bytes > arena_bytes_ - view.offset_bytes)
        return std::nullopt;
      return view;
    }
    return std::nullopt;
  }

  // Whether the slot is still committed at this generation, in an index that is alive. Callers ask
  // after the announcement of a hold, and after a copy. Once a later index has the slot, the word
  // here no longer changes; but `dead` changes before the slot is reused.
  bool still_committed(std::uint32_t slot, std::uint64_t generation) const {
    return slot < entry_count_ &&
           header_->dead.load(std::memory_order_seq_cst) == 0 &&  // mutation: dead-index-hold
           entries_[slot].word.load(std::memory_order_seq_cst) ==
               make_word(SlotState::kCommitted, generation);  // mutation: hold-generation
  }

 private:
  // Whether the slot is committed under this key. Reads the same words as read(), without a view.
  bool holds(std::uint32_t slot, const Key& key) const {
    constexpr auto kAcquire = std::memory_order_acquire;
    if (slot >= entry_count_) return false;
    const IndexEntry& entry = entries_[slot];
    const std::uint64_t word = entry.word.load(kAcquire);
    const std::uint64_t differs = (entry.hash_lo.load(kAcquire) ^ key.hash.lo) |
                                  (entry.hash_hi.load(kAcquire) ^ key.hash.hi) |
                                  (entry.scope.load(kAcquire) ^ key.scope());
    return word_state(word) == SlotState::kCommitted && differs == 0 &&
           entry.word.load(kAcquire) == word;
  }

  static EntryView fields(const IndexEntry& entry, std::uint32_t slot, std::uint64_t generation) {
    constexpr auto kAcquire = std::memory_order_acquire;
    EntryView view;
    view.slot = slot;
    view.generation = generation;
    view.key.hash = {entry.hash_lo.load(kAcquire), entry.hash_hi.load(kAcquire)};
    const std::uint64_t scope = entry.scope.load(kAcquire);
    view.key.namespace_handle = low_half(scope);
    view.key.shard = static_cast<std::uint16_t>(scope >> 32);
    view.key.group = static_cast<std::uint16_t>(scope >> 48);
    const std::uint64_t place = entry.place.load(kAcquire);
    view.offset_bytes = static_cast<std::uint64_t>(low_half(place)) * kSlotAlignBytes;
    view.payload_bytes = high_half(place);
    view.piece_bytes = high_half(entry.origin.load(kAcquire));
    view.root = entry.root.load(kAcquire);
    view.record = entry.record.load(kAcquire);
    return view;
  }

  const IndexHeader* header_ = nullptr;
  const IndexEntry* entries_ = nullptr;
  const Bucket* buckets_ = nullptr;
  std::uint64_t entry_count_ = 0;
  std::uint64_t bucket_count_ = 0;
  std::uint64_t arena_bytes_ = 0;
};

}  // namespace larder::protocol
