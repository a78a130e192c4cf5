// StoredChunks: an arena and an index full of chunks, made by the real Store and the real copy
// engine, and an attached shim.
//
// The memory is the shim's own view of an arena and an index (memfds where larderd has files).
// Unlike any process of the product, this class can write to both. No larderd runs, so damage is
// not repaired. Thread-compatible.
#pragma once

#include <memory>
#include <vector>

#include "shim/client/loads.h"
#include "sidecar/store/store.h"

namespace larder::corruption {

struct Shape {
  std::uint64_t piece_bytes;
  std::uint32_t layers;
  std::uint32_t blocks_per_chunk;
};

class StoredChunks {
 public:
  static constexpr std::uint32_t kChunks = 1024;
  static constexpr std::uint32_t kAtOnce = 64;  // loads in one load_all()

  explicit StoredChunks(const Shape& shape);
  ~StoredChunks();

  // Loads these chunks, at most kAtOnce, each in a load of its own. Returns the outcomes in the
  // same order.
  enum class Outcome { kMiss, kRight, kWrong };
  std::vector<Outcome> load_all(const std::vector<std::uint32_t>& chunks);
  // BAD messages that the shim has sent since the last call.
  std::uint64_t take_bad_reports();

  // The bytes that a load reads: the slot (payload, then the digest table from table_offset() on)
  // and the entry.
  std::span<std::byte> slot(std::uint32_t chunk) {
    return {arena_.data() + views_[chunk].offset_bytes, group_.slot_bytes()};
  }
  std::size_t payload_bytes() const { return group_.payload_bytes(); }
  std::size_t table_offset() const { return protocol::digest_table_offset(group_.payload_bytes()); }
  std::size_t table_bytes() const {
    return 8 * protocol::digest_count(group_.payload_bytes(), group_.piece_bytes);
  }
  std::span<std::byte> entry(std::uint32_t chunk);
  // The cell of the hash table that leads to the chunk.
  std::span<std::byte> cell(std::uint32_t chunk);
  std::uint32_t slot_number(std::uint32_t chunk) const { return views_[chunk].slot; }
  std::uint64_t generation(std::uint32_t chunk) const { return views_[chunk].generation; }

  // Payload and table of the same key in this slot at an earlier generation.
  std::vector<std::byte> earlier_slot(std::uint32_t chunk, std::uint64_t generation);

  // Every byte of arena and index has a number, to count damaged bytes.
  std::size_t place_count() const { return arena_.size() + index_.size(); }
  std::size_t place(const std::byte* at) const {
    if (at >= arena_.data() && at < arena_.data() + arena_.size())
      return static_cast<std::size_t>(at - arena_.data());
    return arena_.size() + static_cast<std::size_t>(at - index_.data());
  }

 private:
  void fill(std::uint32_t place, const protocol::BlockHash& hash, std::uint64_t generation);
  bool holds(std::uint32_t place, const protocol::BlockHash& hash, std::uint64_t generation) const;
  std::vector<std::byte*> pieces(std::uint32_t place);
  void attach(const store::IndexShape& shape);

  const client::Group group_;
  client::NamespaceSpec spec_;
  Mapping arena_, index_, session_;
  Fd arena_fd_, index_fd_, session_fd_, sidecar_end_;
  stats::Stats stats_;
  std::unique_ptr<store::Store> store_;
  std::vector<protocol::EntryView> views_;     // by chunk, as committed
  std::vector<std::vector<std::byte>> pages_;  // by layer: the KV pages of kAtOnce places
  std::vector<client::GroupPages> groups_;
  std::shared_ptr<client::Attachment> attachment_;
  std::unique_ptr<client::CopyPool> pool_;
  std::unique_ptr<client::Loads> loads_;
};

}  // namespace larder::corruption
