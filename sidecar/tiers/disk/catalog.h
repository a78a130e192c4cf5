// Catalog: the place of each chunk on the disk. In memory only: footers and records on the disk are
// authoritative.
//
// Thread-safe: a mutex that is never held during I/O, nor for more than a few thousand chunks. The
// thread of the tier writes, any thread reads. A larger table is built beside the old table, which
// only the thread of the tier may change. A node is about 96 bytes, found by open addressing. The
// nodes of a region are linked, so that they leave together.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sidecar/tiers/disk/format.h"
#include "sidecar/tiers/disk/region_table.h"

namespace larder::disk {

struct Located {
  Record record;
  std::uint32_t region = 0;
};

class Catalog {
 public:
  // `residents`, or nullptr, outlives this object.
  explicit Catalog(std::uint32_t regions = 0, tiers::Residents* residents = nullptr)
      : residents_(residents) {
    reset(regions);
  }

  // Forgets everything.
  void reset(std::uint32_t regions);

  // Chunks of a hidden namespace are not found.
  std::optional<Located> find(const tiers::ChunkKey& key) const;
  // Replaces a chunk with the same key.
  void insert(const Record& record, std::uint32_t region);
  // Inserts many records of one region. Of two records of a key the later append stays. REQUIRES:
  // `table` has the sequences of all regions in the catalog.
  void insert_later(std::span<const Record> records, std::uint32_t region,
                    const RegionTable& table);
  // Makes room for so many more chunks, so that a known number of inserts causes no repeated copies
  // of the tables.
  void make_room(std::uint64_t more);
  // Erases the chunk if it is still at that place. Returns whether it was.
  bool erase(const tiers::ChunkKey& key, std::uint32_t region, std::uint32_t block);
  // Both return the number of erased chunks.
  std::uint64_t erase_region(std::uint32_t region);
  std::uint64_t erase_namespace(const protocol::NamespaceId& id);

  // Hides chunks between the request of a drop and the end of its erasure. Calls nest.
  void hide(const protocol::NamespaceId& id);
  void show(const protocol::NamespaceId& id);
  void hide_all();
  void show_all();

  std::uint64_t chunks() const;
  std::uint64_t slot_bytes() const;  // of all chunks

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    Record record;
    std::uint32_t region = kNone;                  // kNone: free
    std::uint32_t previous = kNone, next = kNone;  // in the region; `next` also links free nodes
  };
  struct Cell {
    std::uint32_t node = kNone;
    std::uint32_t tag = 0;
  };

  static std::uint32_t tag_of(const tiers::ChunkKey& key);
  // The cell of the key, or the empty cell for it.
  std::size_t cell_of(const tiers::ChunkKey& key, std::uint32_t tag) const;
  std::size_t cell_of(const tiers::ChunkKey& key) const { return cell_of(key, tag_of(key)); }
  void enter(const Record& record, std::uint32_t region, std::size_t cell, std::uint32_t tag);
  void link(std::uint32_t node, std::uint32_t region);
  void unlink(std::uint32_t node);
  void erase_cell(std::size_t cell);
  void erase_node(std::uint32_t node);

  tiers::Residents* residents_;
  mutable std::mutex mutex_;
  std::vector<Node> nodes_;
  std::vector<Cell> cells_;  // a power of two, at most half full
  std::vector<std::uint32_t> heads_;
  std::vector<protocol::NamespaceId> hidden_;
  std::uint32_t hidden_all_ = 0;
  std::uint32_t free_ = kNone;
  std::uint64_t chunks_ = 0;
  std::uint64_t slot_bytes_ = 0;
};

}  // namespace larder::disk
