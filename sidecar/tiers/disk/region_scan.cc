#include "sidecar/tiers/disk/region_scan.h"

#include <algorithm>
#include <cstring>

namespace larder::disk {
namespace {

// A block without a header may be followed by records: a torn write leaves a hole, and other writes
// were in flight behind it. The scan searches as many blocks as writes in flight can cover, slots
// and headers.
constexpr std::uint32_t kSearchBlocks = (16U << 20) / kBlockBytes + kMaxIoInFlight;
// 64 KiB of digests at once, so a crafted header cannot ask for gigabytes of memory.
constexpr std::size_t kDigestsAtOnce = 8192;

}  // namespace

const std::byte* RegionScan::bytes(std::uint64_t offset, std::size_t size) {
  // Headers, digests and payload of a record are mostly in one window of 1 MiB, so one read serves
  // all.
  if (offset >= start_ && offset + size <= end_) return window_.data() + (offset - start_);
  const std::uint64_t region_bytes = volume_.superblock.region_bytes;
  if (!status_.ok() || offset + size > region_bytes) return nullptr;
  start_ = offset / kBlockBytes * kBlockBytes;
  end_ = std::min<std::uint64_t>(start_ + window_.size(), region_bytes);
  IoRequest request;
  request.fd = volume_.file.get();
  request.offset = volume_.offset(id_.region, 0) + start_;
  request.parts[0] = window_.first(end_ - start_);
  status_ = device_.run(request);
  // The window has no valid bytes after a failed read.
  if (!status_.ok()) end_ = start_;
  return status_.ok() ? window_.data() + (offset - start_) : nullptr;
}

bool RegionScan::verified(const Record& record) {
  const std::uint64_t slot = std::uint64_t{record.block + 1} * kBlockBytes;
  // The header says nothing about the payload. A kill may leave any part of the payload unwritten,
  // so every digest and the root are computed here.
  const std::uint64_t payload = record.facts.payload_bytes, piece = record.facts.piece_bytes;
  const std::uint64_t table = slot + protocol::digest_table_offset(payload);
  const std::uint64_t count = protocol::digest_count(payload, piece),
                      each = protocol::units_per_piece(piece);
  XXH3_state_t root;
  XXH3_64bits_reset(&root);
  std::vector<std::uint64_t> digests;
  for (std::uint64_t first = 0; first < count; first += digests.size()) {
    digests.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(kDigestsAtOnce, count - first)));
    const std::byte* part = bytes(table + 8 * first, 8 * digests.size());
    if (part == nullptr) return false;
    std::memcpy(digests.data(), part, 8 * digests.size());
    XXH3_64bits_update(&root, digests.data(), 8 * digests.size());
    for (std::uint64_t i = 0; i < digests.size(); ++i) {
      const std::uint64_t in_piece = (first + i) % each * protocol::kDigestUnitBytes;
      const std::uint64_t at = slot + (first + i) / each * piece + in_piece;
      const auto size = static_cast<std::size_t>(
          std::min<std::uint64_t>(protocol::kDigestUnitBytes, piece - in_piece));
      const std::byte* unit = bytes(at, size);
      if (unit == nullptr || protocol::unit_digest(unit, size) != digests[i]) return false;
    }
  }
  return XXH3_64bits_digest(&root) == record.facts.root;
}

Result<std::vector<Record>> RegionScan::records() {
  std::vector<Record> found;
  const std::uint32_t last = volume_.region_blocks() - 1;  // of the trailer
  std::uint32_t searched = 0;
  for (std::uint32_t block = 0; block < last && searched < kSearchBlocks;) {
    const std::byte* head = bytes(std::uint64_t{block} * kBlockBytes, kBlockBytes);
    if (head == nullptr) break;
    const std::optional<Record> record = decode_record(id_, {head, kBlockBytes});
    if (!record || record->block != block || record->blocks() > last - block) {
      ++block;
      ++searched;
      continue;
    }
    // The next record follows, even if the bytes of this one do not match.
    if (verified(*record)) found.push_back(*record);  // mutation: scan-verifies
    block += record->blocks();
    searched = 0;
  }
  if (!status_.ok()) return status_;
  return found;
}

}  // namespace larder::disk
