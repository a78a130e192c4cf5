// Prefault: makes the pages of slots present in this process's mapping of the arena, many a call, before a copy would stop at each of
// them: of slots that are granted, and of those that another engine has filled. A store into pages that this process never wrote costs
// five times one into pages that it did, a load from pages that it never read twice one from others.
//
// A slot is granted only after larderd has touched it: nothing is allocated, and nothing charged, on this side. Thread-compatible;
// the control thread's, which has nothing to do while an engine computes. Failure costs time only.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shim/protocol/checksum.h"
#include "shim/protocol/index_reader.h"

namespace larder::client {

class Prefault {
 public:
  static constexpr std::size_t kGranuleBytes = 64 * 1024;
#ifdef MADV_POPULATE_WRITE
  static constexpr int kToRead = MADV_POPULATE_READ, kToWrite = MADV_POPULATE_WRITE;
#else
  static constexpr int kToRead = 0, kToWrite = 0;  // not before Linux 5.14: the copy faults by itself
#endif

  explicit Prefault(std::size_t arena_bytes) : present_(arena_bytes / kGranuleBytes) {}

  // `slot` begins at offset_bytes of the arena. Slots without a whole granule are left alone. Returns whether the kernel was asked.
  bool ensure(std::uint64_t offset_bytes, std::span<std::byte> slot, int advice = kToWrite) {
    const std::size_t first = (offset_bytes + kGranuleBytes - 1) / kGranuleBytes;
    const std::size_t last = (offset_bytes + slot.size()) / kGranuleBytes;
    bool missing = false;
    for (std::size_t granule = first; granule < last; ++granule) {
      missing = missing || !present_[granule];
      present_[granule] = true;
    }
    if (missing && advice != 0) ::madvise(slot.data(), slot.size(), advice);
    return missing;
  }

  // Of what is committed and `wanted` (a predicate on its key), a little a call: the next kEntriesAhead of the index, until that is
  // kBytesAhead of pages, 1 ms of work.
  template <typename Wanted>
  void look_ahead(const protocol::IndexReader& index, std::span<std::byte> arena, const Wanted& wanted) {
    std::uint64_t asked = 0;
    for (std::uint32_t probed = 0; probed < kEntriesAhead && asked < kBytesAhead; ++probed) {
      if (++next_ >= index.entry_count()) next_ = 0;
      const std::optional<protocol::EntryView> view = index.read(next_);
      if (!view || view->piece_bytes == 0 || !wanted(view->key)) continue;
      const std::uint64_t bytes = protocol::slot_bytes(view->payload_bytes, view->piece_bytes);
      if (view->offset_bytes > arena.size() || bytes > arena.size() - view->offset_bytes) continue;
      if (ensure(view->offset_bytes, arena.subspan(view->offset_bytes, bytes), kToRead)) asked += bytes;
    }
  }
  static constexpr std::uint32_t kEntriesAhead = 2048;
  static constexpr std::uint64_t kBytesAhead = 8 << 20;

 private:
  std::uint32_t next_ = 0;
  std::vector<bool> present_;  // asked for once already; by granule
};

}  // namespace larder::client
