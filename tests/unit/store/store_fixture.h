// A Store over plain memory: a small arena, sessions with regions that the test writes.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shim/protocol/checksum.h"
#include "shim/protocol/index_reader.h"
#include "sidecar/store/store.h"

namespace larder::store::testing_support {

inline constexpr SessionNumber kWriter = 1;

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

inline Memory zeroed_pages(std::size_t bytes) {
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)), &std::free);
  std::memset(memory.get(), 0, rounded);
  return memory;
}

// Two shards of one group: a family has two chunks.
inline NamespaceSpec make_spec(const std::string& fingerprint, std::uint64_t piece_bytes = 4096,
                               std::uint32_t pieces = 1) {
  NamespaceSpec spec;
  spec.id = protocol::namespace_id(fingerprint);
  spec.fingerprint = std::make_shared<const std::string>(fingerprint);
  spec.groups = {{piece_bytes, pieces, 0}};
  spec.shard_count = 2;
  spec.chunk_tokens = 256;
  spec.model = "model";
  return spec;
}

// A store whose arena takes `slots` slots of one 4 KiB piece (8 KiB with the digest table).
// `entries`: slot numbers, if not two for each slot.
class StoreBox {
 public:
  static constexpr std::uint64_t kSlotBytes = 8192;

  explicit StoreBox(std::uint64_t slots, std::uint64_t first_generation = 1000,
                    std::uint64_t entries = 0)
      : shape_{entries != 0 ? entries : slots * 2, IndexShape::buckets_for(slots * 2),
               slots * kSlotBytes, 1, first_generation},
        index_(zeroed_pages(shape_.bytes())),
        arena_(zeroed_pages(shape_.arena_bytes)),
        store_(shape_, index_.get(), arena_.get(), stats_),
        reader_(*protocol::IndexReader::open(index_.get(), shape_.bytes())) {
    store_.set_touched_bytes(shape_.arena_bytes);
    handle_ = open("field: a\n");
  }

  std::uint32_t open(const std::string& fingerprint, std::uint64_t piece_bytes = 4096) {
    std::string difference;
    return *store_.open_namespace(make_spec(fingerprint, piece_bytes), &difference);
  }

  protocol::SessionRegion& add_session(SessionNumber number, const SessionCaps& caps = {}) {
    regions_.emplace(number, zeroed_pages(sizeof(protocol::SessionRegion)));
    store_.sessions().add(number, region(number), caps);
    return region(number);
  }
  protocol::SessionRegion& region(SessionNumber number) {
    return *reinterpret_cast<protocol::SessionRegion*>(regions_.at(number).get());
  }

  protocol::Key key(std::uint64_t n) const {
    return {{n * 0x9e3779b97f4a7c15ULL, n * 0xc2b2ae3d27d4eb4fULL + 1}, handle_, 0, 0};
  }
  protocol::Grant reserve(SessionNumber session, const protocol::Key& wanted) {
    protocol::Grant grant{};
    store_.reserve(session, wanted, std::span(&wanted.hash, 1), std::span(&grant, 1));
    return grant;
  }
  protocol::Grant reserve(SessionNumber session, std::uint64_t n) {
    return reserve(session, key(n));
  }
  // Writes payload and table of one piece as an engine does. Returns the root.
  std::uint64_t write(const protocol::Grant& grant, std::uint64_t value) {
    std::byte* slot = arena_.get() + grant.offset_bytes;
    std::memset(slot, static_cast<int>(value & 0xff), 4096);
    std::uint64_t digest = 0;
    protocol::piece_digests(slot, 4096, &digest);
    std::memcpy(slot + protocol::digest_table_offset(4096), &digest, sizeof(digest));
    return protocol::root_digest(&digest, 1);
  }
  protocol::Grant put(SessionNumber session, std::uint64_t n) {
    const protocol::Grant grant = reserve(session, n);
    if (grant.status == 0)
      store_.commit(session, {grant.slot, 0, grant.generation, write(grant, n)});
    return grant;
  }
  std::optional<protocol::EntryView> find(std::uint64_t n) const { return reader_.find(key(n)); }
  // The other shard's chunk of the same family.
  protocol::Key sibling(std::uint64_t n) const {
    protocol::Key other = key(n);
    other.shard = 1;
    return other;
  }
  protocol::Grant put(SessionNumber session, const protocol::Key& wanted) {
    const protocol::Grant grant = reserve(session, wanted);
    if (grant.status == 0) store_.commit(session, {grant.slot, 0, grant.generation, 1});
    return grant;
  }
  // Of one namespace or of all. Returns the chunks.
  std::uint64_t drop(std::optional<std::uint32_t> handle = {}) {
    Drop drop{handle};
    while (!drop.done) store_.drop(drop);
    return drop.dropped;
  }
  bool has(const protocol::Key& wanted) const { return reader_.find(wanted).has_value(); }
  // Room for slots of the usual size, in extents or outside.
  std::uint64_t free_slots() {
    const stats::Stats stats = filled();
    return stats.slots_free + stats.unused_bytes / kSlotBytes;
  }
  static void hold(protocol::SessionRegion& region, std::uint32_t place,
                   const protocol::Grant& grant) {
    if (region.holds_used.load() <= place) region.holds_used.store(place + 1);
    region.holds[place].exchange(protocol::make_hold(grant.slot, grant.generation));
  }

  Store& store() { return store_; }
  stats::Stats& stats() { return stats_; }
  const protocol::IndexReader& reader() const { return reader_; }
  std::byte* arena() { return arena_.get(); }
  const std::byte* index() const { return index_.get(); }
  std::uint32_t handle() const { return handle_; }
  stats::Stats filled() {
    stats::Stats copy = stats_;
    store_.fill(copy);
    return copy;
  }

 private:
  IndexShape shape_;
  Memory index_;
  Memory arena_;
  std::map<SessionNumber, Memory> regions_;
  stats::Stats stats_;
  Store store_;
  protocol::IndexReader reader_;
  std::uint32_t handle_ = 0;
};

constexpr std::uint32_t status_of(protocol::GrantStatus status) {
  return static_cast<std::uint32_t>(status);
}

}  // namespace larder::store::testing_support
