// The index region: written by the sidecar, mapped read-only by engines, read without locks.
//
//   0                 IndexHeader                          4096 bytes
//   entries_offset    IndexEntry[entry_count]              64 bytes each, one per slot
//   buckets_offset    Bucket[bucket_count]                 64 bytes each; the count is a power of 2
//   namespaces_offset NamespaceEntry[kMaxNamespaces]       32 bytes each; a handle names a place
//   parents_offset    u32[entry_count]                     for the sidecar alone
//
// Reading an entry: load the word (acquire); if it is not committed, a miss. Load the fields
// (acquire each) and the word again; if the word changed, retry at most kProbeRetries times, then a
// miss. The writer makes the word not committed before it stores any field (release each), so a
// reader of a new field also sees the changed word. There is no fence and no store wider than 64
// bits: a writer that dies at any instruction leaves an entry that is whole or not committed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/protocol/key.h"
#include "shim/protocol/limits.h"
#include "shim/protocol/word.h"

namespace larder::protocol {

using AtomicU64 = std::atomic<std::uint64_t>;
static_assert(sizeof(AtomicU64) == 8 && AtomicU64::is_always_lock_free);

inline constexpr std::uint64_t kIndexMagic = 0x3158444e4952414cULL;  // "LARINDX1"

struct IndexHeader {
  std::uint64_t magic;
  std::uint32_t version_major;
  std::uint32_t version_minor;
  std::uint64_t epoch;  // one life of a sidecar
  std::uint64_t size_bytes;
  std::uint64_t arena_bytes;
  std::uint64_t entry_count;
  std::uint64_t bucket_count;
  std::uint64_t entries_offset;
  std::uint64_t buckets_offset;
  std::uint64_t namespaces_offset;
  AtomicU64 dead;                   // an IndexRetirement; not 0: stop look-ups here, attach again
  AtomicU64 generation_high_water;  // the highest generation ever given
  AtomicU64 touched_bytes;          // of the arena, from its start, that have pages
  // For a later sidecar (sidecar/store/previous_index.h); 0: not readable.
  std::uint32_t restart_format;
  std::uint32_t reserved0;
  // For the sidecar: the tier from which it reads into slots of its own; 0: none, several,
  // or unknown.
  std::uint64_t tier;
  // For the sidecar, since 1.9: u32[entry_count], for each slot the slot of the chunk before it in
  // its prompt, + 1; 0: unknown. Valid if that slot has an older generation. 0: no such table.
  std::uint64_t parents_offset;
  std::uint8_t reserved[3968];
};
static_assert(sizeof(IndexHeader) == 4096 && offsetof(IndexHeader, tier) == 112);
static_assert(offsetof(IndexHeader, dead) == 80);
static_assert(offsetof(IndexHeader, touched_bytes) == 96);

// The end of a dead index.
enum class IndexRetirement : std::uint64_t {
  kGone = 1,        // the index and its arena are gone
  kSuperseded = 2,  // another index of the same arena has its entries
};
inline constexpr std::uint32_t kRestartFormat = 1;

// One slot. Every field is one atomic word. All fields except `word` change only while the word is
// not committed.
struct IndexEntry {
  AtomicU64 word;  // word.h
  AtomicU64 hash_lo;
  AtomicU64 hash_hi;
  AtomicU64 scope;   // Key::scope()
  AtomicU64 place;   // low 32: arena offset in kSlotAlignBytes; high 32: payload bytes
  AtomicU64 origin;  // low 32: granting session's number; high 32: piece bytes
  AtomicU64 root;    // checksum.h
  // record_checksum() of the rest, set with the commit; loads and warm restarts check it.
  AtomicU64 record;
};
static_assert(sizeof(IndexEntry) == 64);

// A cell is 0 (empty) or tag (high 32 bits of the key's place hash) and slot + 1 (low 32).
struct Bucket {
  AtomicU64 cells[kBucketCells];
};
static_assert(sizeof(Bucket) == 64);

struct NamespaceEntry {
  AtomicU64 id_lo;
  AtomicU64 id_hi;
  AtomicU64 live;        // 1: in use
  AtomicU64 generation;  // of the handle in use (0 before 1.6)
};
static_assert(sizeof(NamespaceEntry) == 32);

// A namespace handle is a place in the namespace table (low bits) and a generation (high bits). A
// place that was given back serves the next namespace under the next generation, so an old handle
// finds no chunk. A place ends with its last generation, so kNoNamespace is never a handle.
inline constexpr std::uint32_t kNamespacePlaceBits = 10;
static_assert(1U << kNamespacePlaceBits == kMaxNamespaces);
inline constexpr std::uint32_t kLastNamespaceGeneration = (1U << (32 - kNamespacePlaceBits)) - 2;

constexpr std::uint32_t namespace_place(std::uint32_t handle) {
  return handle % kMaxNamespaces;
}
constexpr std::uint32_t namespace_generation(std::uint32_t handle) {
  return handle >> kNamespacePlaceBits;
}
constexpr std::uint32_t make_namespace_handle(std::uint32_t place, std::uint32_t generation) {
  return generation << kNamespacePlaceBits | place;
}

constexpr std::uint64_t pack_halves(std::uint32_t low, std::uint32_t high) {
  return static_cast<std::uint64_t>(low) | (static_cast<std::uint64_t>(high) << 32);
}
constexpr std::uint32_t low_half(std::uint64_t packed) {
  return static_cast<std::uint32_t>(packed);
}
constexpr std::uint32_t high_half(std::uint64_t packed) {
  return static_cast<std::uint32_t>(packed >> 32);
}

// The two buckets of a key, and its tag.
struct KeyPlace {
  std::uint64_t bucket[2];
  std::uint32_t tag;
};

inline KeyPlace key_place(const Key& key, std::uint64_t bucket_count) {
  const std::uint64_t spread = key.spread();
  const std::uint64_t a = key.mixed();
  const std::uint64_t b = key.hash.hi ^ (spread << 7 | spread >> 57);
  const std::uint64_t mask = bucket_count - 1;
  std::uint64_t second = b & mask;
  if (second == (a & mask)) second ^= 1 & mask;
  return {{a & mask, second}, static_cast<std::uint32_t>(b >> 32)};
}

// A reader's copy of a committed entry.
struct EntryView {
  Key key;
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  std::uint64_t offset_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t piece_bytes = 0;
  std::uint64_t root = 0;
  std::uint64_t record = 0;  // as read; differs from record_checksum() if the entry is damaged
};

inline std::uint64_t record_checksum(const EntryView& view) {
  const std::uint64_t words[] = {
      view.key.hash.lo, view.key.hash.hi,  view.key.scope(),
      view.generation,  view.offset_bytes, pack_halves(view.payload_bytes, view.piece_bytes),
      view.root};
  return XXH3_64bits(words, sizeof(words));
}

struct IndexSizes {
  std::uint64_t entries_offset, buckets_offset, namespaces_offset, total_bytes;
};

constexpr IndexSizes index_sizes(std::uint64_t entry_count, std::uint64_t bucket_count) {
  IndexSizes sizes{};
  sizes.entries_offset = sizeof(IndexHeader);
  sizes.buckets_offset = sizes.entries_offset + entry_count * sizeof(IndexEntry);
  sizes.namespaces_offset = sizes.buckets_offset + bucket_count * sizeof(Bucket);
  sizes.total_bytes = sizes.namespaces_offset + kMaxNamespaces * sizeof(NamespaceEntry);
  return sizes;
}

}  // namespace larder::protocol
