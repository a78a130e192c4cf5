// Catalog: which chunks are on the disk, and where. In memory only: footers and records are the truth.
//
// Thread-safe: a mutex that is never held over I/O, nor over more than a few thousand chunks. The tier's thread writes, any reads:
// tables that double are built beside the old ones, which that thread alone may change.
// A node is about 96 bytes, found by open addressing; the nodes of a region are linked, so that they leave together.
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
  // `residents`, or nullptr, outlives it.
  explicit Catalog(std::uint32_t regions = 0, tiers::Residents* residents = nullptr) : residents_(residents) { reset(regions); }

  // Forgets everything.
  void reset(std::uint32_t regions);

  // Nothing of a hidden namespace is found.
  std::optional<Located> find(const tiers::ChunkKey& key) const;
  // Replaces what is there of that key.
  void insert(const Record& record, std::uint32_t region);
  // Many of one region. Of two of a key the later append stays: the table has the sequences of all regions that are in here.
  void insert_later(std::span<const Record> records, std::uint32_t region, const RegionTable& table);
  // Room for so many more, so that what is known to come is not copied from table to table.
  void make_room(std::uint64_t more);
  // Only if it is still the one at that place. Returns whether it was.
  bool erase(const tiers::ChunkKey& key, std::uint32_t region, std::uint32_t block);
  // Returns how many there were.
  std::uint64_t erase_region(std::uint32_t region);
  std::uint64_t erase_namespace(const protocol::NamespaceId& id);

  // Between the moment a drop was asked for and the one at which it has erased what it meant. Calls nest.
  void hide(const protocol::NamespaceId& id);
  void show(const protocol::NamespaceId& id);
  void hide_all();
  void show_all();

  std::uint64_t chunks() const;
  std::uint64_t slot_bytes() const;  // of the chunks that are there

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
  // Its cell, or the empty one where it would stand.
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
