#include "sidecar/tiers/disk/recovery.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sidecar/tiers/disk/region_scan.h"

namespace larder::disk {
namespace {

// A trailer is one block: many small reads hide the latency of the device. A file of 4 TiB has
// 16,384 of them.
constexpr std::size_t kTrailersAtOnce = 64;
constexpr std::size_t kFootersAtOnce = 8;  // a footer takes up to 1.5 MiB, with the smallest chunks

// Reads the ends of regions: some reads are in flight while other ends are decoded.
class TailReads {
 public:
  TailReads(Device& device, const Volume& volume) : device_(device), volume_(volume) {}

  struct Tail {
    std::uint32_t region = 0;
    int error = 0;
    std::shared_ptr<AlignedBytes> memory;
    std::span<const std::byte> bytes;
  };
  // Starts the read of the last `blocks` of a region.
  void start(std::uint32_t region, std::uint32_t blocks);
  // Waits for any finished read.
  Result<Tail> next();
  // Recycles the memory of a read.
  void give_back(Tail tail) { free_.push_back(std::move(tail.memory)); }
  std::size_t in_flight() const { return in_flight_; }

 private:
  Device& device_;
  const Volume& volume_;
  std::vector<std::shared_ptr<AlignedBytes>> free_;
  // Shared, like the memory: a device that was given up may still answer.
  std::shared_ptr<std::deque<Tail>> come_ = std::make_shared<std::deque<Tail>>();
  std::size_t in_flight_ = 0;
};

void TailReads::start(std::uint32_t region, std::uint32_t blocks) {
  const std::size_t bytes = std::size_t{blocks} * kBlockBytes;
  std::shared_ptr<AlignedBytes> memory;
  if (!free_.empty()) {
    // A new buffer would be zeroed and faulted in for every footer.
    memory = std::move(free_.back());
    free_.pop_back();
  }
  if (!memory || memory->span().size() < bytes) memory = std::make_shared<AlignedBytes>(bytes);
  IoRequest request;
  request.fd = volume_.file.get();
  request.offset = volume_.offset(region, volume_.region_blocks()) - bytes;
  request.parts[0] = memory->span().first(bytes);
  ++in_flight_;
  device_.start(request, [come = come_, region, memory, bytes](int error) {
    come->push_back({region, error, memory, memory->span().first(bytes)});
  });
}

Result<TailReads::Tail> TailReads::next() {
  if (Status status = device_.turn_until([&] { return !come_->empty(); }); !status.ok())
    return status;
  Tail tail = std::move(come_->front());
  come_->pop_front();
  --in_flight_;
  return tail;
}

class Recovery {
 public:
  Recovery(Device& device, const Volume& volume, std::span<std::byte> scratch, RegionTable& table,
           Catalog& catalog)
      : device_(device),
        volume_(volume),
        scratch_(scratch),
        table_(table),
        catalog_(catalog),
        trailers_(table.count()) {}

  // To call in this order. Each fails only if the device hangs.
  Status read_trailers();
  Status read_footers();
  Status read_through();
  Recovered recovered;

 private:
  using Blocks = std::function<std::uint32_t(std::uint32_t region)>;
  using Use = std::function<void(const TailReads::Tail& tail)>;
  Status read_tails(const std::vector<std::uint32_t>& regions, std::size_t at_once,
                    const Blocks& blocks, const Use& use);
  void see_trailer(std::uint32_t region, std::span<const std::byte> block);
  void see_footer(std::uint32_t region, std::span<const std::byte> footer);
  void keep(const Trailer& trailer, std::vector<Record>& records);
  void unreadable(std::uint32_t region);

  Device& device_;
  const Volume& volume_;
  std::span<std::byte> scratch_;
  RegionTable& table_;
  Catalog& catalog_;
  std::vector<std::optional<Trailer>> trailers_;  // by region
  std::vector<std::uint32_t> closed_,
      open_;                     // regions that claim a footer; other regions with a trailer
  std::vector<Record> records_;  // reused, so that a footer allocates no memory
};

Status Recovery::read_tails(const std::vector<std::uint32_t>& regions, std::size_t at_once,
                            const Blocks& blocks, const Use& use) {
  TailReads reads(device_, volume_);
  // Decoding happens between the reads, in this thread: the device stays busy meanwhile.
  for (auto next = regions.begin(); next != regions.end() || reads.in_flight() != 0;) {
    for (; next != regions.end() && reads.in_flight() < at_once && device_.has_room(); ++next)
      reads.start(*next, blocks(*next));
    Result<TailReads::Tail> tail = reads.next();
    if (!tail.ok()) return tail.status();
    if (tail->error != 0)
      unreadable(tail->region);
    else
      use(*tail);
    reads.give_back(*std::move(tail));
  }
  return {};
}

// Counts an unreadable region as damaged. A later larderd may be able to read the region, so drop
// marks are kept as if it were the oldest region.
void Recovery::unreadable(std::uint32_t region) {
  ++recovered.damaged;
  if (table_[region].sequence == 0) table_[region].sequence = 1;
}

Status Recovery::read_trailers() {
  std::vector<std::uint32_t> all(table_.count());
  for (std::uint32_t region = 0; region < table_.count(); ++region) all[region] = region;
  const auto use = [this](const TailReads::Tail& tail) { see_trailer(tail.region, tail.bytes); };
  return read_tails(
      all, kTrailersAtOnce, [](std::uint32_t) { return 1; }, use);
}

void Recovery::see_trailer(std::uint32_t region, std::span<const std::byte> block) {
  const std::optional<Trailer> trailer = decode_trailer(volume_.superblock.volume, region, block);
  if (!trailer) {
    recovered.damaged +=
        std::ranges::any_of(block, [](std::byte byte) { return byte != std::byte{0}; }) ? 1 : 0;
    return;
  }
  table_[region].sequence = trailer->id.sequence;
  // New regions come after every known one, so the order of appends holds across restarts.
  table_.saw_sequence(trailer->id.sequence);
  trailers_[region] = trailer;
  // A count from a crafted trailer could ask for more memory than the region has bytes. The region
  // is scanned instead.
  const bool fits = footer_blocks(trailer->count) <= volume_.region_blocks();
  (trailer->closed && fits ? closed_ : open_).push_back(region);
}

Status Recovery::read_footers() {
  std::uint64_t chunks = 0;
  for (const std::uint32_t region : closed_) chunks += trailers_[region]->count;
  catalog_.make_room(chunks);
  const auto blocks = [this](std::uint32_t region) {
    return footer_blocks(trailers_[region]->count);
  };
  return read_tails(closed_, kFootersAtOnce, blocks,
                    [this](const TailReads::Tail& tail) { see_footer(tail.region, tail.bytes); });
}

void Recovery::see_footer(std::uint32_t region, std::span<const std::byte> footer) {
  const Trailer& trailer = *trailers_[region];
  records_.clear();
  if (!decode_entries(trailer, footer.first(footer.size() - kBlockBytes), records_))
    // A damaged footer loses nothing: the headers in the region tell the same, and the scan reads
    // them.
    return open_.push_back(region);
  ++recovered.by_footer;
  keep(trailer, records_);
  if (!records_.empty()) table_[region].state = RegionState::kClosed;
}

// Enters the valid records: inside of the region, and not dropped.
void Recovery::keep(const Trailer& trailer, std::vector<Record>& records) {
  std::erase_if(records, [&](const Record& record) {
    return std::uint64_t{record.block} + record.blocks() > volume_.region_blocks() ||
           volume_.superblock.dropped(record, trailer.id.sequence);
  });
  catalog_.insert_later(records, trailer.id.region, table_);
}

Status Recovery::read_through() {
  for (const std::uint32_t number : open_) {
    const Trailer& trailer = *trailers_[number];
    Result<std::vector<Record>> scanned =
        RegionScan(device_, volume_, trailer.id, scratch_).records();
    // A hanging device ends the start. An unreadable place costs one region only.
    if (scanned.status().code() == Code::kDeadlineExceeded) return scanned.status();
    if (!scanned.ok()) {
      unreadable(number);
      continue;
    }
    recovered.by_scan += scanned->empty() ? 0 : 1;
    keep(trailer, *scanned);
    if (scanned->empty()) continue;  // the region is free
    Region& region = table_[number];
    // The region gets a footer, so the next start need not scan it again. No append follows: bytes
    // behind the last record may be torn.
    region.state = RegionState::kClosing;
    region.next_block = volume_.region_blocks();
    region.records = *std::move(scanned);
  }
  return {};
}

}  // namespace

Result<Recovered> recover(Device& device, const Volume& volume, std::span<std::byte> scratch,
                          RegionTable& table, Catalog& catalog) {
  // New appends must come after every drop mark, even if no trailer has such a sequence.
  table.saw_sequence(volume.superblock.all_dropped.sequence);  // mutation: sequence-after-clear
  for (const DropMark& mark : volume.superblock.drops)
    table.saw_sequence(mark.until.sequence);  // mutation: sequence-after-drops
  Recovery recovery(device, volume, scratch, table, catalog);
  // Trailers first: insert_later() needs all sequences.
  Status status = recovery.read_trailers();
  if (status.ok()) status = recovery.read_footers();
  if (status.ok()) status = recovery.read_through();
  if (!status.ok()) return status;
  recovery.recovered.chunks = catalog.chunks();
  return recovery.recovered;
}

}  // namespace larder::disk
