// Prefault: makes pages of slots present in this process's mapping of the arena, many in one call,
// so a copy does not fault at each page. The slots are granted ones and ones that another engine
// has filled. A store into pages that the process never wrote takes five times as long as one into
// present pages; a load from pages never read takes twice as long.
//
// larderd touches a slot before the grant, so this class allocates no memory and the process is not
// charged. Thread-compatible; used by the control thread, which is idle while an engine computes. A
// failure costs time only.
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
  static constexpr int kToRead = 0,
                       kToWrite = 0;  // before Linux 5.14 the copy takes the page faults
#endif

  explicit Prefault(std::size_t arena_bytes) : present_(arena_bytes / kGranuleBytes) {}

  // `slot` begins at offset_bytes of the arena. A slot without a whole granule is skipped. Returns
  // whether the kernel was asked.
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

  // Makes pages of committed chunks present whose key satisfies `wanted`. One call takes the next
  // kEntriesAhead entries of the index, up to kBytesAhead of pages: about 1 ms of work.
  template <typename Wanted>
  void look_ahead(const protocol::IndexReader& index, std::span<std::byte> arena,
                  const Wanted& wanted) {
    std::uint64_t asked = 0;
    for (std::uint32_t probed = 0; probed < kEntriesAhead && asked < kBytesAhead; ++probed) {
      if (++next_ >= index.entry_count()) next_ = 0;
      const std::optional<protocol::EntryView> view = index.read(next_);
      if (!view || view->piece_bytes == 0 || !wanted(view->key)) continue;
      const std::uint64_t bytes = protocol::slot_bytes(view->payload_bytes, view->piece_bytes);
      if (view->offset_bytes > arena.size() || bytes > arena.size() - view->offset_bytes) continue;
      if (ensure(view->offset_bytes, arena.subspan(view->offset_bytes, bytes), kToRead))
        asked += bytes;
    }
  }
  static constexpr std::uint32_t kEntriesAhead = 2048;
  static constexpr std::uint64_t kBytesAhead = 8 << 20;

 private:
  std::uint32_t next_ = 0;
  std::vector<bool> present_;  // by granule: the kernel was asked
};

}  // namespace larder::client
