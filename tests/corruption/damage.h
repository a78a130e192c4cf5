// Damage: one corruption of the bytes that a load of one chunk reads, with an undo.
// Thread-compatible.
#pragma once

#include <random>
#include <string_view>
#include <vector>

#include "tests/corruption/stored_chunks.h"

namespace larder::corruption {

enum class Kind {
  kPayloadFlip,   // one bit
  kPayloadBurst,  // up to 256 bytes
  kTornPayload,   // a part comes from an earlier generation
  kTableFlip,     // one bit of the digest table
  kTableBurst,
  kTornTable,     // a part comes from an earlier generation or another chunk, or is zero
  kStaleSlot,     // payload and table of an earlier generation, a valid pair
  kSwappedSlots,  // payload and table of another chunk
  kEntryFlip,     // one bit of the index entry
  kEntryBurst,
  kTornEntry,        // the first words come from another entry
  kSwappedEntries,   // the entry of another chunk
  kSwappedFields,    // some words of the entry of another chunk
  kStaleGeneration,  // another generation in the word
  kOtherState,       // another state in the word
  kCellFlip,         // one bit of the cell in the hash table
  kCellElsewhere,    // the cell leads to another chunk
  kCount
};
inline constexpr auto kKinds = static_cast<std::size_t>(Kind::kCount);
std::string_view name_of(Kind kind);

class Damage {
 public:
  Damage(StoredChunks& chunks, std::mt19937_64& random) : chunks_(chunks), random_(random) {}

  // Changes at least one byte on which a load of `chunk` depends. REQUIRES: `other` is not loaded
  // before undo().
  void apply(Kind kind, std::uint32_t chunk, std::uint32_t other);
  // Restores all bytes that apply() has changed since the last undo().
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
  void write_word(std::byte* at, std::uint64_t word) {
    write(at, std::as_bytes(std::span(&word, 1)));
  }
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
