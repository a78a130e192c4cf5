#include "sidecar/tiers/disk/tombstones.h"

#include <memory>

namespace larder::disk {
namespace {

constexpr std::uint32_t kTombstoneTries = 8;

}  // namespace

void Tombstones::bury(std::uint32_t number, const Record& record) {
  tombstones_.push_back({file_.id_of(number), record});
  write();
}

void Tombstones::write() {
  if (!volume_ || health_.is(Health::kLost) || health_.is(Health::kWrites))
    return;  // mutation: bury-when-writable
  for (; !tombstones_.empty() && device_.has_room(); tombstones_.pop_front()) {
    const Tombstone& next = tombstones_.front();
    if (!file_.stands(next.id)) continue;
    Region& region = table_[next.id.region];
    if (region.state == RegionState::kOpening) return;
    ++region.reads;  // keeps the region from being opened
    const auto block = std::make_shared<AlignedBytes>(kBlockBytes);
    encode_grave(next.id, next.record, block->span());
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

void Tombstones::take_out() {
  for (const Tombstone& tombstone : tombstones_) {
    if (!file_.stands(tombstone.id)) continue;
    file_.catalog().erase(tombstone.record.key, tombstone.id.region, tombstone.record.block);
    std::erase(table_[tombstone.id.region].records, tombstone.record);
  }
}

}  // namespace larder::disk
