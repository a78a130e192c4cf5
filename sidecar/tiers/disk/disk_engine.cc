#include "sidecar/tiers/disk/disk_engine.h"

#include <algorithm>
#include <utility>

#include "sidecar/base/file_limit.h"
#include "sidecar/tiers/disk/recovery.h"

namespace larder::disk {

using tiers::Operation;

DiskEngine::DiskEngine(Env& env, const base::Clock& clock, const DiskOptions& options,
                       Catalog& catalog)
    : file_(env, clock, options, catalog) {}

Status DiskEngine::start() {
  const Status status = open_and_recover();
  if (!status.ok()) return status;
  first_path_device_ = volume_->path_device;
  say("I/O",
      std::string("I/O by ") + device_.queue().name() +
          (file_.queue_fallback().empty() ? ", slots registered" : "; " + file_.queue_fallback()));
  return {};
}

Status DiskEngine::open_and_recover() {
  Result<Volume> volume = open_volume(env_, device_, options_, file_.scratch(), first_path_device_);
  if (!volume.ok()) return volume.status();
  const std::uint64_t start = clock_.now_ns();
  table_ = RegionTable(volume->regions, volume->region_blocks());
  catalog_.reset(volume->regions);
  // Before the first record: a chunk dropped while the directory was away must not be found even
  // for a moment.
  drops_.before_recovery();
  const Result<Recovered> recovered = recover(device_, *volume, file_.scratch(), table_, catalog_);
  // The volume counts as open only now. An early return leaves neither volume nor lock.
  if (recovered.ok()) volume_ = *std::move(volume);
  drops_.recovered(recovered.ok());
  if (!recovered.ok()) return recovered.status();
  // The returned file still has the records removed while the file was away.
  tombstones_.take_out();  // mutation: bury-after-loss
  for (const Volume::Note& note : volume_->notes) say(note.kind, note.text);
  say("found again", std::to_string(recovered->chunks) + " chunks found again in " +
                         std::to_string((clock_.now_ns() - start) / 1'000'000) +
                         " ms: " + std::to_string(recovered->by_footer) +
                         " regions by their footers, " + std::to_string(recovered->by_scan) +
                         " read through, " + std::to_string(recovered->damaged) +
                         " damaged and empty, of " + std::to_string(volume_->regions));
  probe_.opened();
  return {};
}

void DiskEngine::accept(const Command& command) {
  if (command.kind != Command::Kind::kOperation) return forget(command);
  const OpPtr op = operations_.add(command);
  // The tier may have become degraded since the caller checked.
  const tiers::TierState state = health_.state();
  const Status refused{Code::kUnavailable, state.reason};
  switch (command.operation) {
    case Operation::kPut:
      // A refusal is answered here, at once: the callers' deadlines are seconds long, and an
      // engine would wait.
      state.takes_puts ? chunks_.add_write(op) : operations_.finish(op, refused);
      break;
    case Operation::kGet:
      state.takes_gets ? chunks_.add_read(op) : operations_.finish(op, refused);
      break;
    case Operation::kDrop:
    case Operation::kClear: drops_.drop(op); break;
    case Operation::kFlush:  // maintain_flushes() finds it
      if (health_.is(Health::kLost)) operations_.finish(op, refused);
      break;
    case Operation::kProbe: break;  // the tier answers from the catalog
  }
}

void DiskEngine::turn(std::uint64_t timeout_ns) {
  // Outcomes of the last turn are not published yet, so waiting here would delay their callers.
  device_.turn(operations_.has_outcomes() ? 0 : timeout_ns);
  maintain_health();
  // Reads start before writes: an engine waits for a read, nobody waits for a write.
  chunks_.pump_reads();
  regions_.maintain(chunks_.writes_wait(), closing_);
  chunks_.pump_writes();
  // Once more: pump_writes() may have filled the active region, and the next one should be opened
  // without the wait of a turn.
  regions_.maintain(chunks_.writes_wait(), closing_);
  tombstones_.write();
  maintain_flushes();
  drops_.write_if_stale();
  // Last: an operation answered in this turn succeeds, even if the deadline has just passed.
  operations_.miss_deadlines();
}

std::uint64_t DiskEngine::next_turn_ns() const {
  std::uint64_t wait = options_.check_ms * 1'000'000;
  if (health_.state().degraded() || closing_) wait = std::min(wait, options_.retry_ms * 1'000'000);
  // A quarter of the bound, so a stall is seen at most a quarter later than the bound.
  if (device_.in_flight() != 0) wait = std::min(wait, options_.stall_ms * 1'000'000 / 4);
  const std::uint64_t now = clock_.now_ns();
  const std::uint64_t deadline = operations_.next_deadline_ns();
  return deadline <= now ? 0 : std::min(wait, deadline - now);
}

void DiskEngine::maintain_health() {
  if (const std::optional<std::string> why = probe_.watch()) lose(*why);
  const std::uint64_t now = clock_.now_ns();
  if (health_.is(Health::kLost)) {
    // Requests in flight use the descriptor of the old file. The file is closed after the last
    // request.
    if (device_.in_flight() != 0 || closing_) return;
    volume_.reset();  // releases the lock and the space of the old file
    if (!health_.retry(now)) return;
    // A returned directory is handled as a start. Another process may have changed or replaced the
    // file meanwhile.
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
    // A request in flight may still succeed on the unlinked file. The answer must be a failure: no
    // later larderd finds the record.
    op->cancelled = true;
    if (op->command.operation == Operation::kFlush)
      operations_.finish(op, {Code::kUnavailable, health_.state().reason});
  }
  chunks_.fail_waiting(true, true);
  drops_.lost({Code::kUnavailable, health_.state().reason});
}

void DiskEngine::maintain_flushes() {
  if (flushing_ || !volume_ || health_.is(Health::kLost)) return;
  // A flush promises that all puts accepted before it are on the disk. The list is in the order of
  // acceptance, so only puts in front of the flush count.
  const auto pending = [](const OpPtr& op) { return op->command.operation == Operation::kPut; };
  const std::list<OpPtr>& live = operations_.live();
  const auto flush = std::ranges::find_if(
      live, [](const OpPtr& op) { return op->command.operation == Operation::kFlush; });
  if (flush == live.end() || std::any_of(live.begin(), flush, pending))
    return;  // mutation: flush-after-puts
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
  // A report of bad bytes is about one generation. A newer record of the key is not concerned.
  if (!located || (!evict && located->record.facts.generation != command.facts.generation)) return;
  if (ttl_.expired(located->record.written_s, env_.unix_s())) {
    counters_.chunks_expired += catalog_.erase(key, located->region, located->record.block) ? 1 : 0;
    return;
  }
  catalog_.erase(key, located->region, located->record.block);
  ++(evict ? counters_.chunks_dropped : counters_.records_corrupt);
  if (!volume_ || health_.is(Health::kLost)) return;
  std::erase(table_[located->region].records,
             located->record);  // the footer must not list the record
  tombstones_.bury(located->region, located->record);
}

bool DiskEngine::closed() const {
  if (!operations_.live().empty() || device_.in_flight() != 0) return false;
  // Nothing more can be written: waiting would only use up the grace of the stop.
  if (!volume_ || health_.is(Health::kLost) || health_.is(Health::kWrites)) return true;
  return tombstones_.empty() && !table_.in_state(RegionState::kActive) &&
         !table_.in_state(RegionState::kClosing);
}

void DiskEngine::abandon(const Status& why) {
  chunks_.clear();
  drops_.abandon();
  operations_.abandon(why);
}

tiers::TierCounters DiskEngine::counters() const {
  tiers::TierCounters counters = counters_;
  counters.written_bytes = device_.written_bytes;
  counters.read_bytes = device_.read_bytes;
  counters.times_degraded = health_.times();
  counters.chunks = catalog_.chunks();
  counters.used_bytes = catalog_.slot_bytes();
  counters.capacity_bytes = volume_ ? volume_->regions * volume_->superblock.region_bytes : 0;
  chunks_.fill(counters);
  return counters;
}

}  // namespace larder::disk
