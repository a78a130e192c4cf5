// Failures and the recovery from them; drops, and the superblock that tells the next larderd of
// drops.
#include <algorithm>
#include <cstring>
#include <utility>

#include "sidecar/base/file_limit.h"
#include "sidecar/tiers/disk/disk_engine.h"
#include "sidecar/tiers/disk/recovery.h"

namespace larder::disk {

using tiers::Operation;

Status DiskEngine::start() {
  const Status status = open_and_recover();
  if (!status.ok()) return status;
  first_path_device_ = volume_->path_device;
  say("I/O", std::string("I/O by ") + device_.queue().name() +
                 (file_.queue_fallback().empty() ? ", slots registered" : "; " + file_.queue_fallback()));
  return {};
}

Status DiskEngine::open_and_recover() {
  Result<Volume> volume = open_volume(env_, device_, options_, file_.scratch(), first_path_device_);
  if (!volume.ok()) return volume.status();
  const std::uint64_t start = clock_.now_ns();
  table_ = RegionTable(volume->regions, volume->region_blocks());
  catalog_.reset(volume->regions);
  // Chunks that were dropped while the file was away must not be found even for a moment.
  for (const Dropped& dropped : pending_drops_) dropped.all ? catalog_.hide_all() : catalog_.hide(dropped.id);
  const Result<Recovered> recovered = recover(device_, *volume, file_.scratch(), table_, catalog_);
  if (recovered.ok()) volume_ = *std::move(volume);
  for (const Dropped& dropped : pending_drops_) {
    erase_dropped(dropped);
    if (recovered.ok()) mark_dropped(dropped);
  }
  superblock_stale_ = !pending_drops_.empty();
  if (!recovered.ok()) return recovered.status();
  tombstones_.take_out();  // mutation: bury-after-loss
  for (const Volume::Note& note : volume_->notes) say(note.kind, note.text);
  say("found again", std::to_string(recovered->chunks) + " chunks found again in " +
                         std::to_string((clock_.now_ns() - start) / 1'000'000) + " ms: " + std::to_string(recovered->by_footer) +
                         " regions by their footers, " + std::to_string(recovered->by_scan) + " read through, " +
                         std::to_string(recovered->damaged) + " damaged and empty, of " + std::to_string(volume_->regions));
  probe_.opened();
  return {};
}

void DiskEngine::maintain_health() {
  if (const std::optional<std::string> why = probe_.watch()) lose(*why);
  const std::uint64_t now = clock_.now_ns();
  if (health_.is(Health::kLost)) {
    if (device_.in_flight() != 0 || closing_) return;
    volume_.reset();  // releases the lock and the space of the old file
    if (!health_.retry(now)) return;
    const Status status = open_and_recover();
    if (!status.ok()) {
      volume_.reset();
      return health_.set(Health::kLost, "the directory went away: " + status.text());
    }
    return probe_.returned();
  }
  probe_.try_reads(now);
}

// The directory went away, or another directory is in its place. No chunk is found any more; the
// tier looks for the directory until it is back.
void DiskEngine::lose(const std::string& why) {
  health_.set(Health::kLost, "the directory went away: " + why);
  say("went away", health_.state().reason);
  catalog_.reset(table_.count());
  const std::vector<OpPtr> live(operations_.live().begin(), operations_.live().end());
  for (const OpPtr& op : live) {
    op->cancelled = true;
    if (op->command.operation == Operation::kFlush) operations_.finish(op, {Code::kUnavailable, health_.state().reason});
  }
  fail_waiting(true, true);
  for (std::vector<OpPtr>* drops : {&superblock_next_, &superblock_now_})
    for (const OpPtr& op : std::exchange(*drops, {})) operations_.finish(op, {Code::kUnavailable, health_.state().reason});
  superblock_stale_ = false;
}

void DiskEngine::maintain_flushes() {
  if (flushing_ || !volume_ || health_.is(Health::kLost)) return;
  const auto pending = [](const OpPtr& op) { return op->command.operation == Operation::kPut; };
  const std::list<OpPtr>& live = operations_.live();
  const auto flush = std::ranges::find_if(live, [](const OpPtr& op) { return op->command.operation == Operation::kFlush; });
  if (flush == live.end() || std::any_of(live.begin(), flush, pending)) return;  // mutation: flush-after-puts
  flushing_ = true;
  start_io(IoRequest::Kind::kSync, 0, {}, [this, op = *flush](int error) {  // mutation: flush-syncs
    flushing_ = false;
    operations_.finish(op, error == 0 ? Status() : Status::from_errno(error, "fdatasync"));
  });
}

// Forgets a chunk that is bad in this generation or expired; kEvict forgets a chunk of any
// generation, and fails a put in progress.
void DiskEngine::forget(const Command& command) {
  const tiers::ChunkKey& key = command.key;
  const bool evict = command.kind == Command::Kind::kEvict;
  if (evict) operations_.cancel([&](const tiers::ChunkKey& other) { return other == key; });
  const std::optional<Located> located = catalog_.find(key);
  if (!located || (!evict && located->record.facts.generation != command.facts.generation)) return;
  if (ttl_.expired(located->record.written_s, env_.unix_s())) {
    counters_.chunks_expired += catalog_.erase(key, located->region, located->record.block) ? 1 : 0;
    return;
  }
  catalog_.erase(key, located->region, located->record.block);
  ++(evict ? counters_.chunks_dropped : counters_.records_corrupt);
  if (!volume_ || health_.is(Health::kLost)) return;
  std::erase(table_[located->region].records, located->record);  // the footer must not list the record
  tombstones_.bury(located->region, located->record);
}

// A position after all appends so far, and before or at all appends to come.
Position DiskEngine::next_position() const {
  std::uint64_t next = table_.next_sequence();
  for (std::uint32_t number = 0; number < table_.count(); ++number) {
    const Region& region = table_[number];
    if (region.state == RegionState::kActive && !region.broken) return {region.sequence, region.next_block};
    if (region.state == RegionState::kReady) next = std::min(next, region.sequence);
    // The sequence of an opening region, the last one taken, is not in the table before the trailer
    // is written.
    if (region.state == RegionState::kOpening) next = std::min(next, table_.next_sequence() - 1);
  }
  return {next, 0};
}

void DiskEngine::drop(const OpPtr& op) {
  const Dropped dropped{op->command.key.namespace_id, op->command.operation == Operation::kClear};
  operations_.cancel([&](const auto& key) { return dropped.all || key.namespace_id == dropped.id; });  // mutation: drop-in-flight
  op->dropped = erase_dropped(dropped);
  owe(dropped);  // mutation: drop-owed
  if (!volume_ || health_.is(Health::kLost)) return operations_.finish(op, {Code::kUnavailable, health_.state().reason});
  mark_dropped(dropped);
  superblock_stale_ = true;
  superblock_next_.push_back(op);
}

// Remembers a drop until a superblock on the disk has it, even while the file is away. Too many
// drops become a drop of all.
void DiskEngine::owe(const Dropped& dropped) {
  const bool full = pending_drops_.size() == kMaxDropMarks;
  if (dropped.all || full) pending_drops_.clear();
  pending_drops_.push_back({dropped.id, dropped.all || full});
}

// Erases dropped chunks from the catalog, which has hidden them so far. Returns the number.
std::uint64_t DiskEngine::erase_dropped(const Dropped& dropped) {
  std::uint64_t chunks = 0;
  if (dropped.all) {
    for (std::uint32_t number = 0; number < table_.count(); ++number) chunks += catalog_.erase_region(number);
    catalog_.show_all();
  } else {
    chunks = catalog_.erase_namespace(dropped.id);
    catalog_.show(dropped.id);
  }
  counters_.chunks_dropped += chunks;
  return chunks;
}

void DiskEngine::mark_dropped(const Dropped& dropped) {
  Superblock& superblock = volume_->superblock;
  const Position until = next_position();
  std::erase_if(superblock.drops, [&](const DropMark& mark) {
    return dropped.all || mark.namespace_id == dropped.id || mark.until.sequence < table_.oldest_sequence();
  });
  if (dropped.all || superblock.drops.size() == kMaxDropMarks) {
    // A full table of marks drops the chunks of all namespaces: losing chunks is better than
    // finding dropped chunks again.
    superblock.drops.clear();
    superblock.all_dropped = until;
    for (std::uint32_t number = 0; number < table_.count(); ++number) counters_.chunks_dropped += catalog_.erase_region(number);
  } else {
    superblock.drops.push_back({dropped.id, until});  // mutation: drop-restart
  }
}

// Writes both copies, one after the other, before the drop is answered: at any time one copy is
// intact, and afterwards no older copy is left. The copy that a failed write may have damaged comes
// first.
void DiskEngine::write_superblock() {
  if (!device_.has_room()) return;
  writing_label_ = true;
  superblock_stale_ = false;
  superblock_now_ = std::exchange(superblock_next_, {});
  ++volume_->superblock.serial;
  encode_superblock(volume_->superblock, file_.superblock_bytes());
  write_label_copy(1 - volume_->whole_label, false);
}

void DiskEngine::write_label_copy(std::size_t copy, bool last) {
  const auto synced = [this, copy, last](int error) {
    if (error != 0) return superblock_failed(error);
    volume_->whole_label = copy;
    if (!last) return write_label_copy(1 - copy, true);
    writing_label_ = false;
    if (!superblock_stale_ && !health_.is(Health::kLost)) pending_drops_.clear();
    for (const OpPtr& op : std::exchange(superblock_now_, {})) operations_.finish(op, {});
  };
  start_io(IoRequest::Kind::kWrite, copy * kSuperblockBytes, file_.superblock_bytes(), [this, synced](int error) {
    if (error != 0) return superblock_failed(error);
    start_io(IoRequest::Kind::kSync, 0, {}, synced);  // mutation: drop-synced
  });
}

// The superblock is written again once writes work. The callers hear that their drops are not on
// the disk yet.
void DiskEngine::superblock_failed(int error) {
  writing_label_ = false;
  superblock_stale_ = true;
  for (const OpPtr& op : std::exchange(superblock_now_, {}))
    operations_.finish(op, base::file_failure(error, "writing the disk tier's superblock"));
  probe_.write_failed(error);
}

}  // namespace larder::disk
