// Damage: one corruption of what a load of one chunk reads, and its undoing. Thread-compatible.
#pragma once

#include <random>
#include <string_view>
#include <vector>

#include "tests/corruption/stored_chunks.h"

namespace larder::corruption {

enum class Kind {
  kPayloadFlip,   // one bit
  kPayloadBurst,  // up to 256 bytes
  kTornPayload,   // part of it is of an earlier generation
  kTableFlip,     // the same of the digest table
  kTableBurst,
  kTornTable,     // part of it is of an earlier generation, of another chunk, or zero
  kStaleSlot,     // payload and table of an earlier generation, sound in themselves
  kSwappedSlots,  // with those of another chunk
  kEntryFlip,     // the same of the index entry
  kEntryBurst,
  kTornEntry,        // its first words are another entry's
  kSwappedEntries,   // with that of another chunk
  kSwappedFields,    // some words of it
  kStaleGeneration,  // the word says another generation
  kOtherState,       // the word says another state
  kCellFlip,         // of the word in the hash table
  kCellElsewhere,    // which leads to another chunk
  kCount
};
inline constexpr auto kKinds = static_cast<std::size_t>(Kind::kCount);
std::string_view name_of(Kind kind);

class Damage {
 public:
  Damage(StoredChunks& chunks, std::mt19937_64& random) : chunks_(chunks), random_(random) {}

  // Changes at least one byte that a load of `chunk` depends on. `other` is not loaded before undo().
  void apply(Kind kind, std::uint32_t chunk, std::uint32_t other);
  // Puts back all that apply() has changed since the last undo().
  void undo();

  // Places (StoredChunks::place) that the last apply() changed.
  const std::vector<std::size_t>& places() const { return places_; }

 private:
  struct Change {
    std::byte* at;
    std::vector<std::byte> before;
  };

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::size_t byte_of_entry();
  void write(std::byte* at, std::span<const std::byte> bytes);
  void write_word(std::byte* at, std::uint64_t word) { write(at, std::as_bytes(std::span(&word, 1))); }
  void swap(std::span<std::byte> a, std::span<std::byte> b);
  void flip(std::span<std::byte> bytes);
  void burst(std::span<std::byte> bytes);
  void tear(std::span<std::byte> bytes, std::span<const std::byte> from);
  void damage_slot(Kind kind, std::uint32_t chunk, std::uint32_t other);
  void damage_entry(Kind kind, std::uint32_t chunk, std::uint32_t other);

  StoredChunks& chunks_;
  std::mt19937_64& random_;
  std::vector<Change> changes_;  // oldest first
  std::vector<std::size_t> places_;
};

}  // namespace larder::corruption
