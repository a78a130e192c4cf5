#include "sidecar/tiers/disk/region_writer.h"

#include <memory>
#include <utility>

namespace larder::disk {

void RegionWriter::maintain(bool puts_wait, bool closing) {
  if (!volume_ || health_.is(Health::kLost)) return;
  bool coming = false;
  for (std::uint32_t number = 0; number < table_.count(); ++number) {
    Region& region = table_[number];
    if (region.state == RegionState::kActive && (region.broken || (closing && !puts_wait)))
      region.state = RegionState::kClosing;
    // The footer names only appends that ended, so it waits for the last one in flight.
    if (region.state == RegionState::kClosing && region.writes == 0) close_region(number);
    coming = coming || region.state == RegionState::kOpening || region.state == RegionState::kReady;
  }
  // One region is opened ahead, so that no append waits. After a failed write, opening a region is
  // also the test whether writes work again.
  const bool wanted = puts_wait || table_.in_state(RegionState::kActive).has_value();
  const bool attempt = health_.is(Health::kWrites) && !health_.is(Health::kStalled);
  if (coming || (closing && !puts_wait) ||
      (attempt ? !health_.retry(file_.clock().now_ns()) : !wanted))
    return;
  if (const std::optional<std::uint32_t> victim = table_.next_victim()) open_region(*victim);
}

std::optional<std::uint32_t> RegionWriter::place(std::uint32_t blocks) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::optional<std::uint32_t> active = table_.in_state(RegionState::kActive);
    if (active && table_.fits(table_[*active], blocks)) return active;
    const std::optional<std::uint32_t> ready = table_.in_state(RegionState::kReady);
    // An old record of the region is still being read or buried there. Appends would overwrite the
    // bytes under the read, so the puts wait.
    if (!ready || table_[*ready].reads != 0) return std::nullopt;  // mutation: read-region-closed
    if (active) table_[*active].state = RegionState::kClosing;
    table_[*ready].state = RegionState::kActive;
  }
  return std::nullopt;
}

// Opens a region with a new, synced trailer. The records of the region stay readable until then. A
// kill in between may lose them: they are the oldest.
void RegionWriter::open_region(std::uint32_t number) {
  Region& region = table_[number];
  const RegionState before = std::exchange(region.state, RegionState::kOpening);
  // A failed attempt does not give the sequence back: the trailer may have reached the disk.
  const std::uint64_t sequence = table_.take_sequence();
  const auto block = std::make_shared<AlignedBytes>(kBlockBytes);
  encode_trailer({{volume_->superblock.volume, sequence, number}, false, 0, 0}, block->span());
  // Only an attempt that began after the last failure shows that writes work again.
  const std::uint64_t failures = health_.times();
  const auto done = [this, number, sequence, before, failures](int error) {
    if (error != 0) table_[number].state = before;
    opened(number, sequence, error, failures);
  };
  const auto sync = [this, block, done](int error) {
    if (error != 0) return done(error);
    start_io(IoRequest::Kind::kSync, 0, {}, done);  // mutation: region-open-synced
  };
  start_io(IoRequest::Kind::kWrite, volume_->offset(number, table_.region_blocks() - 1),
           block->span(), sync);
}

void RegionWriter::opened(std::uint32_t number, std::uint64_t sequence, int error,
                          std::uint64_t failures) {
  Region& region = table_[number];
  if (error != 0) {
    ++region.failures;
    probe_.write_failed(error);
    return;
  }
  // After the sync: until then a kill leaves the old trailer or none. The catalog keeps the old
  // records readable, since no append has begun.
  counters_.chunks_evicted += catalog_.erase_region(number);  // mutation: region-erased
  region.sequence = sequence;
  region.next_block = 0;
  region.records.clear();
  region.broken = false;
  region.failures = 0;
  const bool stale = health_.is(Health::kWrites) && health_.times() != failures;
  region.state = stale ? RegionState::kFree : RegionState::kReady;
  if (stale || !health_.is(Health::kWrites)) return;
  health_.clear(Health::kWrites);
  file_.say("writes work", "writes work again");
}

// Syncs the records before the footer is written. Without the sync a loss of power could leave a
// footer that names missing bytes.
void RegionWriter::close_region(std::uint32_t number) {
  Region& region = table_[number];
  if (region.records.empty()) {
    region.state = RegionState::kFree;
    return;
  }
  if (!device_.has_room()) return;
  // The sync and the footer count as a write, so maintain() does not close the region twice.
  ++region.writes;
  start_io(IoRequest::Kind::kSync, 0, {}, [this, number](int error) {  // mutation: records-synced
    if (error == 0) return write_footer(number);
    --table_[number].writes;
    table_[number].state =
        RegionState::kClosed;  // without a footer: the next larderd scans the region
    table_[number].records = {};
    probe_.write_failed(error);
  });
}

void RegionWriter::write_footer(std::uint32_t number) {
  Region& region = table_[number];
  const std::size_t bytes = std::size_t{footer_blocks(region.records.size())} * kBlockBytes;
  const auto footer = std::make_shared<AlignedBytes>(bytes);
  encode_footer(file_.id_of(number), region.records, footer->span());
  const std::uint64_t offset = volume_->offset(number, table_.region_blocks()) - bytes;
  start_io(IoRequest::Kind::kWrite, offset, footer->span(), [this, number, footer](int error) {
    Region& done = table_[number];
    --done.writes;
    done.state = RegionState::kClosed;
    // The catalog has the same records. Keeping a second copy of all would nearly double the
    // memory.
    done.records = {};
    if (error != 0) probe_.write_failed(error);
  });
}

}  // namespace larder::disk
