#include "sidecar/tiers/disk/drop_log.h"

#include <algorithm>

#include "sidecar/base/file_limit.h"

namespace larder::disk {

using tiers::Operation;

void DropLog::before_recovery() {
  for (const Dropped& dropped : pending_drops_)
    dropped.all ? catalog_.hide_all() : catalog_.hide(dropped.id);
}

void DropLog::recovered(bool ok) {
  for (const Dropped& dropped : pending_drops_) {
    erase_dropped(dropped);
    if (ok) mark_dropped(dropped);
  }
  // The superblock of a returned file is from before the drops, and is written again, with or
  // without a caller.
  superblock_stale_ = !pending_drops_.empty();
}

void DropLog::write_if_stale() {
  if (superblock_stale_ && !writing_label_ && volume_ && !health_.is(Health::kLost) &&
      !health_.is(Health::kWrites))
    write_superblock();
}

void DropLog::lost(const Status& why) {
  for (std::vector<OpPtr>* drops : {&superblock_next_, &superblock_now_})
    for (const OpPtr& op : std::exchange(*drops, {})) operations_.finish(op, why);
  superblock_stale_ = false;
}

void DropLog::abandon() {
  superblock_next_.clear();
  superblock_now_.clear();
}

// A position after all appends so far, and before or at all appends to come.
Position DropLog::next_position() const {
  std::uint64_t next = table_.next_sequence();
  for (std::uint32_t number = 0; number < table_.count(); ++number) {
    const Region& region = table_[number];
    if (region.state == RegionState::kActive && !region.broken)
      return {region.sequence, region.next_block};
    if (region.state == RegionState::kReady) next = std::min(next, region.sequence);
    // The sequence of an opening region, the last one taken, is not in the table before the trailer
    // is written.
    if (region.state == RegionState::kOpening) next = std::min(next, table_.next_sequence() - 1);
  }
  return {next, 0};
}

void DropLog::drop(const OpPtr& op) {
  const Dropped dropped{op->command.key.namespace_id, op->command.operation == Operation::kClear};
  // Puts in flight were accepted before the drop. The records get graves at the end of the puts.
  operations_.cancel([&](const auto& key) {
    return dropped.all || key.namespace_id == dropped.id;
  });  // mutation: drop-in-flight
  op->dropped = erase_dropped(dropped);
  add_pending(dropped);  // mutation: drop-owed
  // The drop is pending, but not durable: a death of larderd now would undo the drop, and the error
  // says so (F-139).
  if (!volume_ || health_.is(Health::kLost))
    return operations_.finish(op, {Code::kUnavailable, health_.state().reason});
  mark_dropped(dropped);
  superblock_stale_ = true;
  superblock_next_.push_back(op);
}

// Remembers a drop until a superblock on the disk has it, even while the file is away. Too many
// drops become a drop of all.
void DropLog::add_pending(const Dropped& dropped) {
  const bool full = pending_drops_.size() == kMaxDropMarks;
  if (dropped.all || full) pending_drops_.clear();
  pending_drops_.push_back({dropped.id, dropped.all || full});
}

// Erases dropped chunks from the catalog, which has hidden them so far. Returns the number.
std::uint64_t DropLog::erase_dropped(const Dropped& dropped) {
  std::uint64_t chunks = 0;
  if (dropped.all) {
    for (std::uint32_t number = 0; number < table_.count(); ++number)
      chunks += catalog_.erase_region(number);
    catalog_.show_all();
  } else {
    chunks = catalog_.erase_namespace(dropped.id);
    catalog_.show(dropped.id);
  }
  counters_.chunks_dropped += chunks;
  return chunks;
}

void DropLog::mark_dropped(const Dropped& dropped) {
  Superblock& superblock = volume_->superblock;
  const Position until = next_position();
  std::erase_if(superblock.drops, [&](const DropMark& mark) {
    // Every region from before such a mark was reused, so the mark drops nothing more.
    return dropped.all || mark.namespace_id == dropped.id ||
           mark.until.sequence < table_.oldest_sequence();
  });
  if (dropped.all || superblock.drops.size() == kMaxDropMarks) {
    // A full table of marks drops the chunks of all namespaces: losing chunks is better than
    // finding dropped chunks again.
    superblock.drops.clear();
    superblock.all_dropped = until;
    for (std::uint32_t number = 0; number < table_.count(); ++number)
      counters_.chunks_dropped += catalog_.erase_region(number);
  } else {
    superblock.drops.push_back({dropped.id, until});  // mutation: drop-restart
  }
}

// Writes both copies, one after the other, before the drop is answered: at any time one copy is
// intact, and afterwards no older copy is left. The copy that a failed write may have damaged comes
// first.
void DropLog::write_superblock() {
  if (!file_.device().has_room()) return;
  writing_label_ = true;
  superblock_stale_ = false;
  superblock_now_ = std::exchange(superblock_next_, {});
  ++volume_->superblock.serial;
  encode_superblock(volume_->superblock, file_.superblock_bytes());
  write_label_copy(1 - volume_->whole_label, false);
}

void DropLog::write_label_copy(std::size_t copy, bool last) {
  const auto synced = [this, copy, last](int error) {
    if (error != 0) return superblock_failed(error);
    volume_->whole_label = copy;
    if (!last) return write_label_copy(1 - copy, true);
    writing_label_ = false;
    if (!superblock_stale_ && !health_.is(Health::kLost)) pending_drops_.clear();
    for (const OpPtr& op : std::exchange(superblock_now_, {})) operations_.finish(op, {});
  };
  start_io(IoRequest::Kind::kWrite, copy * kSuperblockBytes, file_.superblock_bytes(),
           [this, synced](int error) {
             if (error != 0) return superblock_failed(error);
             start_io(IoRequest::Kind::kSync, 0, {}, synced);  // mutation: drop-synced
           });
}

// The superblock is written again once writes work. The callers hear that their drops are not on
// the disk yet.
void DropLog::superblock_failed(int error) {
  writing_label_ = false;
  superblock_stale_ = true;
  for (const OpPtr& op : std::exchange(superblock_now_, {}))
    operations_.finish(op, base::file_failure(error, "writing the disk tier's superblock"));
  probe_.write_failed(error);
}

}  // namespace larder::disk
