#include "sidecar/tiers/disk/tombstones.h"

#include <memory>

namespace larder::disk {
namespace {

// A bound, because each failed attempt makes the tier degraded: one bad sector would keep puts off
// for ever.
constexpr std::uint32_t kTombstoneTries = 8;

}  // namespace

void Tombstones::bury(std::uint32_t number, const Record& record) {
  // The id keeps the sequence: a region opened again meanwhile has new records at this place.
  tombstones_.push_back({file_.id_of(number), record});
  write();
}

void Tombstones::write() {
  if (!volume_ || health_.is(Health::kLost) || health_.is(Health::kWrites))
    return;  // mutation: bury-when-writable
  for (; !tombstones_.empty() && device_.has_room(); tombstones_.pop_front()) {
    const Tombstone& next = tombstones_.front();
    // The region was opened again: its old records do not count any more, and the grave would
    // damage a new one.
    if (!file_.stands(next.id)) continue;
    Region& region = table_[next.id.region];
    // The outcome of the opening decides. The grave would otherwise race with the first append of
    // the new life.
    if (region.state == RegionState::kOpening) return;
    // Counted as a read, which next_victim() and place() respect.
    ++region.reads;  // keeps the region from being opened
    const auto block = std::make_shared<AlignedBytes>(kBlockBytes);
    encode_tombstone(next.id, next.record, block->span());
    const auto done = [this, tombstone = next, block](int error) mutable {
      --table_[tombstone.id.region].reads;
      if (error == 0) return;
      if (++tombstone.failures < kTombstoneTries)
        tombstones_.push_back(tombstone);  // mutation: bury-retried, bury-bounded
      probe_.write_failed(error);
    };
    file_.start_io(IoRequest::Kind::kWrite, volume_->offset(next.id.region, next.record.block),
                   block->span(), done);
  }
}

// The graves themselves are written later, by write(). Until then the catalog alone hides the
// records.
void Tombstones::take_out() {
  for (const Tombstone& tombstone : tombstones_) {
    if (!file_.stands(tombstone.id)) continue;
    file_.catalog().erase(tombstone.record.key, tombstone.id.region, tombstone.record.block);
    std::erase(table_[tombstone.id.region].records, tombstone.record);
  }
}

}  // namespace larder::disk
