#include "sidecar/store/index_writer.h"

#include <bit>

#include "shim/protocol/version.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

using protocol::SlotState;

namespace {
// The generation mark in the header runs ahead of use by this step, so that only one grant in a
// step writes the mark. A restart then starts above the mark, and generations never repeat.
constexpr std::uint64_t kGenerationStep = 1ULL << 16;
}  // namespace

IndexWriter::IndexWriter(std::byte* data, const IndexShape& shape)
    : bucket_count_(shape.bucket_count),
      last_generation_(shape.first_generation),
      high_water_(shape.first_generation) {
  const protocol::IndexSizes sizes = protocol::index_sizes(shape.entry_count, shape.bucket_count);
  header_ = reinterpret_cast<protocol::IndexHeader*>(data);
  entries_ = reinterpret_cast<protocol::IndexEntry*>(data + sizes.entries_offset);
  buckets_ = reinterpret_cast<protocol::Bucket*>(data + sizes.buckets_offset);
  namespaces_ = reinterpret_cast<protocol::NamespaceEntry*>(data + sizes.namespaces_offset);
  parents_ = reinterpret_cast<std::atomic<std::uint32_t>*>(data + sizes.total_bytes);
  header_->magic = protocol::kIndexMagic;
  header_->version_major = protocol::kVersionMajor;
  header_->version_minor = protocol::kVersionMinor;
  header_->epoch = shape.epoch;
  header_->size_bytes = shape.bytes();
  header_->arena_bytes = shape.arena_bytes;
  header_->entry_count = shape.entry_count;
  header_->bucket_count = shape.bucket_count;
  header_->entries_offset = sizes.entries_offset;
  header_->buckets_offset = sizes.buckets_offset;
  header_->namespaces_offset = sizes.namespaces_offset;
  header_->parents_offset = sizes.total_bytes;
  header_->restart_format = protocol::kRestartFormat;
  header_->tier = shape.tier;
  store(header_->generation_high_water, high_water_);
}

protocol::Key IndexWriter::key(std::uint32_t slot) const {
  const protocol::IndexEntry& entry = entries_[slot];
  const std::uint64_t scope = load(entry.scope);
  return {{load(entry.hash_lo), load(entry.hash_hi)},
          protocol::low_half(scope),
          static_cast<std::uint16_t>(scope >> 32),
          static_cast<std::uint16_t>(scope >> 48)};
}

std::uint32_t IndexWriter::link(std::uint32_t slot) const {
  const std::uint32_t parent = parents_[slot].load(std::memory_order_relaxed) - 1;
  return parent >= entry_count() || generation(parent) >= generation(slot) ? kNoSlot : parent;
}

std::uint32_t IndexWriter::parent(std::uint32_t slot) const {
  const std::uint32_t parent = link(slot);
  if (parent == kNoSlot) return kNoSlot;
  const SlotState of_parent = state(parent);
  return of_parent == SlotState::kCommitted || of_parent == SlotState::kGranted ? parent : kNoSlot;
}

std::uint32_t IndexWriter::find(const protocol::Key& wanted) const {
  // Granted and committed slots have a cell. Quarantined and doomed ones have none, so the key can
  // be granted anew at once.
  const protocol::KeyPlace place = protocol::key_place(wanted, bucket_count_);
  for (const std::uint64_t bucket : place.bucket) {
    for (const protocol::AtomicU64& cell : buckets_[bucket].cells) {
      const std::uint64_t value = load(cell);
      if (protocol::high_half(value) != place.tag || value == 0)
        continue;  // the tag rules out most other keys
      const std::uint32_t slot = protocol::low_half(value) - 1;
      if (key(slot) == wanted) return slot;
    }
  }
  return kNoSlot;
}

// An empty cell for a key: in the first bucket while it has more than kSpareCells empty cells, else
// in the emptier bucket. The preference saves readers the second bucket for seven keys in eight at
// the highest load, one half. With fewer spare cells some keys would find both buckets full: one in
// a thousand with 0 spare cells, one in 60,000 with 1 (simulated: 2^18 buckets at a load of one
// half, random keys).
protocol::AtomicU64* IndexWriter::empty_cell(const protocol::KeyPlace& place) {
  constexpr int kSpareCells = 2;
  protocol::AtomicU64* best = nullptr;
  int most = 0;
  for (const std::uint64_t bucket : place.bucket) {
    unsigned empty = 0;  // a bit a cell, without a branch: empty cells are unpredictable
    for (unsigned i = 0; i < protocol::kBucketCells; ++i)
      empty |= static_cast<unsigned>(load(buckets_[bucket].cells[i]) == 0) << i;
    const int count = std::popcount(empty);
    if (count > most) {
      most = count;
      best = &buckets_[bucket].cells[std::countr_zero(empty)];
    }
    if (most > kSpareCells) break;
  }
  return best;
}

std::uint64_t IndexWriter::next_generation() {
  ++last_generation_;
  if (last_generation_ > high_water_) {
    high_water_ = last_generation_ + kGenerationStep;
    store(header_->generation_high_water, high_water_);
  }
  return last_generation_;
}

std::uint64_t IndexWriter::grant(std::uint32_t slot, const protocol::Key& new_key,
                                 const Place& where, std::uint32_t session) {
  const protocol::KeyPlace place = protocol::key_place(new_key, bucket_count_);
  protocol::AtomicU64* cell = empty_cell(place);
  if (cell == nullptr) return 0;
  protocol::IndexEntry& entry = entries_[slot];
  const std::uint64_t generation = next_generation();
  // The word goes first: a reader that copied under the old generation sees the change and discards
  // the copy. The key goes last, when all fields of the entry are written.
  entry.word.exchange(protocol::make_word(SlotState::kGranted, generation),
                      std::memory_order_seq_cst);
  store(entry.hash_lo, new_key.hash.lo);
  store(entry.hash_hi, new_key.hash.hi);
  store(entry.scope, new_key.scope());
  store(entry.place, protocol::pack_halves(
                         static_cast<std::uint32_t>(where.offset_bytes / protocol::kSlotAlignBytes),
                         where.payload_bytes));
  store(entry.origin, protocol::pack_halves(session, where.piece_bytes));
  store(entry.root, 0);
  store(entry.record, 0);
  store(*cell, protocol::pack_halves(slot + 1, place.tag));
  return generation;
}

void IndexWriter::copy(const protocol::EntryView& view, std::uint32_t session) {
  protocol::IndexEntry& entry = entries_[view.slot];
  // Not visible: the entry gets its state in adopt(), after overlaps are resolved.
  store(entry.word, protocol::make_word(SlotState::kFree, view.generation));
  store(entry.hash_lo, view.key.hash.lo);
  store(entry.hash_hi, view.key.hash.hi);
  store(entry.scope, view.key.scope());
  store(entry.place, protocol::pack_halves(
                         static_cast<std::uint32_t>(view.offset_bytes / protocol::kSlotAlignBytes),
                         view.payload_bytes));
  store(entry.origin, protocol::pack_halves(session, view.piece_bytes));
  store(entry.root, view.root);
  store(entry.record, protocol::record_checksum(view));
}

bool IndexWriter::adopt(std::uint32_t slot, SlotState state) {
  if (state == SlotState::kCommitted) {
    const protocol::KeyPlace place = protocol::key_place(key(slot), bucket_count_);
    protocol::AtomicU64* cell = empty_cell(place);
    if (cell == nullptr) return false;
    store(*cell, protocol::pack_halves(slot + 1, place.tag));
  }
  set_state(slot, state);
  return true;
}

void IndexWriter::commit(std::uint32_t slot, std::uint64_t root) {
  protocol::IndexEntry& entry = entries_[slot];
  // Root and checksum before the state: a reader that sees "committed" sees the root to verify
  // with.
  store(entry.root, root);
  store(entry.record, protocol::record_checksum(view(slot)));
  set_state(slot, SlotState::kCommitted);
}

void IndexWriter::set_state(std::uint32_t slot, SlotState state) {
  // Sequentially consistent, like the reader's hold. Of an announced hold and a changed word, each
  // side sees at least one.
  entries_[slot].word.exchange(protocol::make_word(state, generation(slot)),
                               std::memory_order_seq_cst);
}

void IndexWriter::erase_key(std::uint32_t slot) {
  const protocol::KeyPlace place = protocol::key_place(key(slot), bucket_count_);
  const std::uint64_t value = protocol::pack_halves(slot + 1, place.tag);
  for (const std::uint64_t bucket : place.bucket)
    for (protocol::AtomicU64& cell : buckets_[bucket].cells)
      if (load(cell) == value) {
        store(cell, 0);
        return;
      }
}

protocol::EntryView IndexWriter::view(std::uint32_t slot) const {
  const protocol::IndexEntry& entry = entries_[slot];
  const std::uint64_t place = load(entry.place);
  protocol::EntryView view;
  view.key = key(slot);
  view.slot = slot;
  view.generation = generation(slot);
  view.offset_bytes =
      static_cast<std::uint64_t>(protocol::low_half(place)) * protocol::kSlotAlignBytes;
  view.payload_bytes = protocol::high_half(place);
  view.piece_bytes = protocol::high_half(load(entry.origin));
  view.root = load(entry.root);
  return view;
}

// A restart between the two stores finds a wrong record checksum and treats the slot as free. A
// reader of the slot then at most copies in vain.
void IndexWriter::detach(std::uint32_t slot) {
  protocol::Key detached = key(slot);
  detached.namespace_handle = protocol::kNoNamespace;
  store(entries_[slot].scope, detached.scope());
  store(entries_[slot].record, protocol::record_checksum(view(slot)));
}

void IndexWriter::set_namespace(std::uint32_t handle, const protocol::NamespaceId& id) {
  protocol::NamespaceEntry& entry = namespaces_[protocol::namespace_place(handle)];
  store(entry.id_lo, id.lo);
  store(entry.id_hi, id.hi);
  store(entry.generation, protocol::namespace_generation(handle));
  store(entry.live, 1);
}

void IndexWriter::clear_namespace(std::uint32_t handle) {
  store(namespaces_[protocol::namespace_place(handle)].live, 0);
}

void IndexWriter::mark_dead() {
  header_->dead.store(static_cast<std::uint64_t>(protocol::IndexRetirement::kGone),
                      std::memory_order_seq_cst);
}

}  // namespace larder::store
