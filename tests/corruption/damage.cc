#include "tests/corruption/damage.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace larder::corruption {
namespace {

constexpr std::size_t kMostBurst = 256;
constexpr std::size_t kMostEntryBurst = 24;

// The only bytes of an entry that no load depends on: the number of the session that stored the
// chunk.
constexpr std::size_t kSessionBegin = offsetof(protocol::IndexEntry, origin);
constexpr std::size_t kSessionEnd = kSessionBegin + 4;

// Fields in which two entries of one namespace always differ.
constexpr std::array<std::size_t, 6> kOwnFields{
    offsetof(protocol::IndexEntry, word),    offsetof(protocol::IndexEntry, hash_lo),
    offsetof(protocol::IndexEntry, hash_hi), offsetof(protocol::IndexEntry, place),
    offsetof(protocol::IndexEntry, root),    offsetof(protocol::IndexEntry, record)};

}  // namespace

std::string_view name_of(Kind kind) {
  static constexpr std::array<std::string_view, kKinds> kNames{
      "payload flip", "payload burst",   "torn payload",   "table flip", "table burst",
      "torn table",   "stale slot",      "swapped slots",  "entry flip", "entry burst",
      "torn entry",   "swapped entries", "swapped fields", "stale word", "other state",
      "cell flip",    "cell elsewhere"};
  return kNames[static_cast<std::size_t>(kind)];
}

void Damage::write(std::byte* at, std::span<const std::byte> bytes) {
  changes_.push_back({at, {at, at + bytes.size()}});
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (at[i] != bytes[i]) places_.push_back(chunks_.place(at + i));
  std::memmove(at, bytes.data(), bytes.size());
}

void Damage::undo() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
    std::memcpy(change->at, change->before.data(), change->before.size());
  changes_.clear();
}

void Damage::swap(std::span<std::byte> a, std::span<std::byte> b) {
  const std::vector<std::byte> kept(a.begin(), a.end());
  write(a.data(), b);
  write(b.data(), kept);
}

void Damage::flip(std::span<std::byte> bytes) {
  std::byte& at = bytes[below(bytes.size())];
  const std::byte flipped = at ^ static_cast<std::byte>(1 << below(8));
  write(&at, std::span(&flipped, 1));
}

// Random bytes from the start on, the first of which is surely another than before.
void Damage::burst(std::span<std::byte> bytes) {
  std::vector<std::byte> noise(1 + below(std::min(kMostBurst, bytes.size())));
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random_());
  noise[0] = bytes[0] ^ static_cast<std::byte>(1 + below(255));
  write(bytes.data(), noise);
}

// Head or tail comes from elsewhere, as after a write that stopped in the middle; one byte at least
// differs.
void Damage::tear(std::span<std::byte> bytes, std::span<const std::byte> from) {
  const std::size_t size = 1 + below(bytes.size() - 1);
  const std::size_t begin = below(2) == 0 ? 0 : bytes.size() - size;
  if (std::equal(from.begin() + static_cast<long>(begin),
                 from.begin() + static_cast<long>(begin + size), &bytes[begin]))
    return flip(bytes);
  write(&bytes[begin], from.subspan(begin, size));
}

// Any byte but those that no load depends on.
std::size_t Damage::byte_of_entry() {
  const std::size_t at = below(sizeof(protocol::IndexEntry) - (kSessionEnd - kSessionBegin));
  return at < kSessionBegin ? at : at + (kSessionEnd - kSessionBegin);
}

void Damage::apply(Kind kind, std::uint32_t chunk, std::uint32_t other) {
  places_.clear();
  if (kind < Kind::kEntryFlip) return damage_slot(kind, chunk, other);
  if (kind < Kind::kCellFlip) return damage_entry(kind, chunk, other);
  const std::span<std::byte> cell = chunks_.cell(chunk);
  if (kind == Kind::kCellFlip) return flip(cell);
  std::uint64_t word = 0;
  std::memcpy(&word, cell.data(), sizeof(word));
  write_word(cell.data(),
             protocol::pack_halves(chunks_.slot_number(other) + 1, protocol::high_half(word)));
}

void Damage::damage_slot(Kind kind, std::uint32_t chunk, std::uint32_t other) {
  const std::span<std::byte> slot = chunks_.slot(chunk);
  const std::span<std::byte> payload = slot.first(chunks_.payload_bytes());
  const std::span<std::byte> table = slot.subspan(chunks_.table_offset(), chunks_.table_bytes());
  switch (kind) {
    case Kind::kPayloadFlip: return flip(payload);
    case Kind::kPayloadBurst: return burst(payload.subspan(below(payload.size())));
    case Kind::kTableFlip: return flip(table);
    case Kind::kTableBurst: return burst(table.subspan(below(table.size())));
    case Kind::kSwappedSlots: return swap(slot, chunks_.slot(other));
    default: break;
  }
  std::vector<std::byte> from =
      chunks_.earlier_slot(chunk, chunks_.generation(chunk) - 1 - below(1000));
  if (kind == Kind::kStaleSlot) return write(slot.data(), from);
  if (kind == Kind::kTornPayload) return tear(payload, std::span(from).first(payload.size()));
  const std::uint64_t whose = below(3);
  if (whose == 0) std::fill(from.begin(), from.end(), std::byte{0});
  const std::span<const std::byte> source =
      whose == 1 ? chunks_.slot(other) : std::span<const std::byte>(from);
  tear(table, source.subspan(chunks_.table_offset(), table.size()));
}

void Damage::damage_entry(Kind kind, std::uint32_t chunk, std::uint32_t other) {
  const std::span<std::byte> entry = chunks_.entry(chunk);
  const std::span<std::byte> another = chunks_.entry(other);
  const std::uint64_t generation = chunks_.generation(chunk);
  switch (kind) {
    case Kind::kEntryFlip: return flip(entry.subspan(byte_of_entry(), 1));
    case Kind::kEntryBurst: {
      const std::size_t begin = byte_of_entry();
      return burst(
          entry.subspan(begin, std::min<std::size_t>(kMostEntryBurst, entry.size() - begin)));
    }
    case Kind::kTornEntry: return write(entry.data(), another.first(8 * (1 + below(7))));
    case Kind::kSwappedEntries: return swap(entry, another);
    case Kind::kSwappedFields: {
      const std::uint64_t fields = 1 + below((1U << kOwnFields.size()) - 1);
      for (std::size_t i = 0; i < kOwnFields.size(); ++i)
        if ((fields >> i & 1) != 0)
          swap(entry.subspan(kOwnFields[i], 8), another.subspan(kOwnFields[i], 8));
      return;
    }
    case Kind::kStaleGeneration: {
      const std::uint64_t stale =
          below(2) == 0 ? generation - 1 - below(1000) : generation + 1 + below(1000);
      return write_word(entry.data(), protocol::make_word(protocol::SlotState::kCommitted, stale));
    }
    default: {
      const auto committed = static_cast<std::uint64_t>(protocol::SlotState::kCommitted);
      const auto state = static_cast<protocol::SlotState>((committed + 1 + below(7)) % 8);
      return write_word(entry.data(), protocol::make_word(state, generation));
    }
  }
}

}  // namespace larder::corruption
