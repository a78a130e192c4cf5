#include "sidecar/store/previous_index.h"

#include <string>

#include "shim/protocol/version.h"

namespace larder::store {
namespace {

std::string version_text(std::uint32_t major, std::uint32_t minor, std::uint32_t format) {
  return "version " + std::to_string(major) + "." + std::to_string(minor) + ", restart format " +
         std::to_string(format);
}

// Whether this larderd can start warm from the index.
Status check_format(const protocol::IndexHeader& header) {
  const std::uint32_t major = header.version_major, minor = header.version_minor,
                      format = header.restart_format;
  const std::string text = version_text(major, minor, format);
  if (major > protocol::kVersionMajor || format > protocol::kRestartFormat)
    return {Code::kUnsupported, "it is of " + text + ", and this larderd knows " +
                                    version_text(protocol::kVersionMajor, protocol::kVersionMinor,
                                                 protocol::kRestartFormat)};
  if (major < protocol::kVersionMajor || format == 0)
    return {Code::kFailedPrecondition,
            "it is of " + text + ", which no larderd can start warm from"};
  return {};
}

}  // namespace

Result<PreviousIndex> PreviousIndex::open(std::byte* data, std::size_t size_bytes) {
  constexpr std::uint64_t kMost = 1ULL << 31;
  if (size_bytes < sizeof(protocol::IndexHeader))
    return Status(Code::kNotFound, "shorter than an index's header");
  auto* header = reinterpret_cast<protocol::IndexHeader*>(data);
  if (header->magic != protocol::kIndexMagic) return Status(Code::kNotFound, "not an index");
  // A dead index was superseded: a later larderd has granted slots of the arena since.
  if (header->dead.load(std::memory_order_acquire) != 0)
    return Status(Code::kNotFound, "an index marked as dead");
  if (Status status = check_format(*header); !status.ok()) return status;
  const std::uint64_t entries = header->entry_count, buckets = header->bucket_count;
  // The file survived a crash and is not trusted: counts first, then the offsets that follow from
  // the counts, and nothing is read before.
  if (entries == 0 || entries > kMost || buckets < 2 || buckets > kMost ||
      (buckets & (buckets - 1)) != 0)
    return Status(Code::kDataLoss, "an index with impossible counts");
  const protocol::IndexSizes sizes = protocol::index_sizes(entries, buckets);
  if (sizes.total_bytes > size_bytes || sizes.entries_offset != header->entries_offset ||
      sizes.namespaces_offset != header->namespaces_offset)
    return Status(Code::kDataLoss, "an index whose offsets do not match the counts");
  PreviousIndex index;
  index.entries_ = reinterpret_cast<const protocol::IndexEntry*>(data + sizes.entries_offset);
  index.namespaces_ =
      reinterpret_cast<const protocol::NamespaceEntry*>(data + sizes.namespaces_offset);
  const std::uint64_t parents_bytes = entries * sizeof(std::uint32_t);
  if (header->parents_offset == sizes.total_bytes &&
      size_bytes - sizes.total_bytes >= parents_bytes)
    index.parents_ = reinterpret_cast<const std::atomic<std::uint32_t>*>(data + sizes.total_bytes);
  index.dead_ = &header->dead;
  index.epoch_ = header->epoch;
  index.arena_bytes_ = header->arena_bytes;
  index.entry_count_ = entries;
  index.tier_ = header->tier;
  index.last_generation_ = header->generation_high_water.load(std::memory_order_acquire);
  index.touched_bytes_ = header->touched_bytes.load(std::memory_order_acquire);
  // Half of the range is left for this run: generations start above the mark and never repeat.
  if (index.last_generation_ == 0 || index.last_generation_ > protocol::kMaxGeneration / 2)
    return Status(Code::kDataLoss, "an index with impossible generations");
  return index;
}

PreviousIndex::Entry PreviousIndex::read(std::uint32_t slot) const {
  constexpr auto kAcquire = std::memory_order_acquire;
  const protocol::IndexEntry& from = entries_[slot];
  const std::uint64_t word = from.word.load(kAcquire), scope = from.scope.load(kAcquire);
  const std::uint64_t place = from.place.load(kAcquire), origin = from.origin.load(kAcquire);
  Entry entry;
  entry.state = protocol::word_state(word);
  entry.session = protocol::low_half(origin);
  entry.view.key = {{from.hash_lo.load(kAcquire), from.hash_hi.load(kAcquire)},
                    protocol::low_half(scope),
                    static_cast<std::uint16_t>(scope >> 32),
                    static_cast<std::uint16_t>(scope >> 48)};
  entry.view.slot = slot;
  entry.view.generation = protocol::word_generation(word);
  entry.view.offset_bytes =
      static_cast<std::uint64_t>(protocol::low_half(place)) * protocol::kSlotAlignBytes;
  entry.view.payload_bytes = protocol::high_half(place);
  entry.view.piece_bytes = protocol::high_half(origin);
  entry.view.root = from.root.load(kAcquire);
  entry.view.record = from.record.load(kAcquire);
  return entry;
}

protocol::NamespaceId PreviousIndex::namespace_id(std::uint32_t handle) const {
  const protocol::NamespaceEntry& entry = namespaces_[protocol::namespace_place(handle)];
  if (entry.live.load(std::memory_order_acquire) != 1 ||
      entry.generation.load(std::memory_order_acquire) != protocol::namespace_generation(handle))
    return {};
  return {entry.id_lo.load(std::memory_order_acquire), entry.id_hi.load(std::memory_order_acquire)};
}

}  // namespace larder::store
