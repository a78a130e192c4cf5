#include "sidecar/tiers/disk/recovery.h"

#include <algorithm>

#include "sidecar/tiers/disk/region_scan.h"

namespace larder::disk {
namespace {

// The trailer and, unless there are very many, all entries before it.
constexpr std::size_t kTailBytes = 64 * 1024;

class Recovery {
 public:
  Recovery(Device& device, const Volume& volume, std::span<std::byte> scratch, RegionTable& table, Catalog& catalog)
      : device_(device), volume_(volume), scratch_(scratch), table_(table), catalog_(catalog) {}

  Status region(std::uint32_t number);
  Recovered recovered;

 private:
  Status read(std::uint64_t offset, std::span<std::byte> bytes) {
    IoRequest request;
    request.fd = volume_.file.get();
    request.offset = offset;
    request.parts[0] = bytes;
    return device_.run(request);
  }
  Status read_entries(const Trailer& trailer, std::span<const std::byte> tail, std::vector<Record>& records, bool& whole);
  void keep(const Trailer& trailer, std::vector<Record> records, bool closed);

  Device& device_;
  const Volume& volume_;
  std::span<std::byte> scratch_;
  RegionTable& table_;
  Catalog& catalog_;
};

// `whole`: the footer is what the trailer says.
Status Recovery::read_entries(const Trailer& trailer, std::span<const std::byte> tail, std::vector<Record>& records,
                              bool& whole) {
  whole = false;
  const std::uint64_t blocks = footer_blocks(trailer.count);
  if (blocks > volume_.region_blocks()) return {};
  const auto bytes = static_cast<std::size_t>(blocks * kBlockBytes);
  if (bytes <= tail.size()) {
    whole = decode_entries(trailer, tail.last(bytes).first(bytes - kBlockBytes), records);
    return {};
  }
  // More than the scratch memory holds: memory of its own, which the device's time-out leaves alone.
  auto own = std::make_unique<AlignedBytes>(bytes);
  const std::uint64_t offset = volume_.offset(trailer.id.region, volume_.region_blocks()) - bytes;
  const Status status = read(offset, own->span());
  if (status.ok()) whole = decode_entries(trailer, own->span().first(bytes - kBlockBytes), records);
  if (status.code() == Code::kDeadlineExceeded) [[maybe_unused]]
    const AlignedBytes* left_to_the_device = own.release();
  return status;
}

void Recovery::keep(const Trailer& trailer, std::vector<Record> records, bool closed) {
  const std::uint32_t number = trailer.id.region;
  Region& region = table_[number];
  std::erase_if(records, [&](const Record& record) {
    return std::uint64_t{record.block} + record.blocks() > volume_.region_blocks() ||
           volume_.label.dropped(record, trailer.id.sequence);
  });
  for (const Record& record : records) {
    const std::optional<Located> known = catalog_.find(record.key);
    if (known && Position{table_[known->region].sequence, known->record.block} > Position{trailer.id.sequence, record.block})
      continue;
    catalog_.insert(record, number);
  }
  if (records.empty()) return;  // free
  region.state = closed ? RegionState::kClosed : RegionState::kClosing;
  if (closed) return;
  region.next_block = volume_.region_blocks();
  region.records = std::move(records);
}

Status Recovery::region(std::uint32_t number) {
  const std::size_t tail_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kTailBytes, volume_.label.region_bytes));
  const std::span<std::byte> tail = scratch_.first(tail_bytes);
  if (Status status = read(volume_.offset(number, volume_.region_blocks()) - tail_bytes, tail); !status.ok()) return status;
  const std::optional<Trailer> trailer = decode_trailer(volume_.label.volume, number, tail.last(kBlockBytes));
  if (!trailer) {
    recovered.damaged += std::ranges::any_of(tail.last(kBlockBytes), [](std::byte byte) { return byte != std::byte{0}; }) ? 1 : 0;
    return {};
  }
  table_[number].sequence = trailer->id.sequence;
  table_.saw_sequence(trailer->id.sequence);
  std::vector<Record> records;
  bool whole = false;
  if (trailer->closed)
    if (Status status = read_entries(*trailer, tail, records, whole); !status.ok()) return status;
  if (whole) {
    ++recovered.by_footer;
    keep(*trailer, std::move(records), true);
    return {};
  }
  Result<std::vector<Record>> scanned = RegionScan(device_, volume_, trailer->id, scratch_).records();
  if (!scanned.ok()) return scanned.status();
  recovered.by_scan += scanned->empty() ? 0 : 1;
  keep(*trailer, *std::move(scanned), false);
  return {};
}

}  // namespace

Result<Recovered> recover(Device& device, const Volume& volume, std::span<std::byte> scratch, RegionTable& table,
                          Catalog& catalog) {
  // New appends come after every drop that is remembered, also where no trailer is left to tell.
  table.saw_sequence(volume.label.all_dropped.sequence);
  for (const DropMark& mark : volume.label.drops) table.saw_sequence(mark.until.sequence);
  Recovery recovery(device, volume, scratch, table, catalog);
  for (std::uint32_t number = 0; number < table.count(); ++number) {
    const Status status = recovery.region(number);
    // One that cannot be read is lost, a device that does not answer is no start.
    if (status.code() == Code::kDeadlineExceeded) return status;
    if (status.ok()) continue;
    ++recovery.recovered.damaged;
    // A later life may read it: marks of drops stay as if it were the oldest.
    if (table[number].sequence == 0) table[number].sequence = 1;
  }
  recovery.recovered.chunks = catalog.chunks();
  return recovery.recovered;
}

}  // namespace larder::disk
