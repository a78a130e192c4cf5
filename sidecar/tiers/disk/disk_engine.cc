#include "sidecar/tiers/disk/disk_engine.h"

#include <algorithm>
#include <utility>

#include "sidecar/base/file_limit.h"
#include "sidecar/tiers/disk/recovery.h"

namespace larder::disk {

using tiers::Operation;

namespace {

constexpr std::uint64_t kShareBesideReads = 4;  // beside reads, writes get a quarter of their window: engines wait for reads

}  // namespace

DiskEngine::DiskEngine(Env& env, const base::Clock& clock, const DiskOptions& options, Catalog& catalog)
    : file_(env, clock, options, catalog), write_window_(options.write_bytes_in_flight) {}

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
  drops_.before_recovery();
  const Result<Recovered> recovered = recover(device_, *volume, file_.scratch(), table_, catalog_);
  if (recovered.ok()) volume_ = *std::move(volume);
  drops_.recovered(recovered.ok());
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

void DiskEngine::accept(const Command& command) {
  if (command.kind != Command::Kind::kOperation) return forget(command);
  const OpPtr op = operations_.add(command);
  // The tier may have become degraded since the caller checked.
  const tiers::TierState state = health_.state();
  const Status refused{Code::kUnavailable, state.reason};
  switch (command.operation) {
    case Operation::kPut: state.takes_puts ? writes_.push_back(op) : operations_.finish(op, refused); break;
    case Operation::kGet: state.takes_gets ? chunks_.add_read(op) : operations_.finish(op, refused); break;
    case Operation::kDrop:
    case Operation::kClear: drops_.drop(op); break;
    case Operation::kFlush:  // maintain_flushes() finds it
      if (health_.is(Health::kLost)) operations_.finish(op, refused);
      break;
    case Operation::kProbe: break;  // the tier answers from the catalog
  }
}

void DiskEngine::turn(std::uint64_t timeout_ns) {
  device_.turn(operations_.has_outcomes() ? 0 : timeout_ns);
  maintain_health();
  chunks_.pump_reads();
  regions_.maintain(!writes_.empty(), closing_);
  pump_writes();
  regions_.maintain(!writes_.empty(), closing_);
  tombstones_.write();
  maintain_flushes();
  drops_.write_if_stale();
  operations_.miss_deadlines();
}

std::uint64_t DiskEngine::next_turn_ns() const {
  std::uint64_t wait = options_.check_ms * 1'000'000;
  if (health_.state().degraded() || closing_) wait = std::min(wait, options_.retry_ms * 1'000'000);
  if (device_.in_flight() != 0) wait = std::min(wait, options_.stall_ms * 1'000'000 / 4);
  const std::uint64_t now = clock_.now_ns();
  const std::uint64_t deadline = operations_.next_deadline_ns();
  return deadline <= now ? 0 : std::min(wait, deadline - now);
}

void DiskEngine::pump_writes() {
  // Engines wait for reads: beside reads, writes get only a part of the device.
  const std::uint64_t share = chunks_.reading() ? kShareBesideReads : 1;
  while (!writes_.empty() && device_.has_room() && health_.state().takes_puts && volume_) {
    const OpPtr op = writes_.front();
    if (op->done) {
      writes_.pop_front();
      continue;
    }
    if (!write_window_.lets(writing_bytes_, op->command.slot.size(), share)) return;
    const std::optional<Located> known = catalog_.find(op->command.key);
    const tiers::ChunkFacts& facts = op->command.facts;
    if (known && known->record.facts == facts && !ttl_.expired(known->record.written_s, env_.unix_s())) {
      ++counters_.puts_present;
      writes_.pop_front();
      operations_.finish(op, {});
      continue;
    }
    const auto blocks = static_cast<std::uint32_t>(1 + facts.slot_bytes() / kBlockBytes);
    if (blocks + footer_blocks(1) > table_.region_blocks()) {
      writes_.pop_front();
      operations_.finish(op, too_large_for_a_region(options_, facts.slot_bytes()));
      continue;
    }
    const std::optional<std::uint32_t> number = regions_.place(blocks);
    if (!number) return;
    writes_.pop_front();
    start_write(op, *number);
  }
}

void DiskEngine::start_write(const OpPtr& op, std::uint32_t number) {
  Region& region = table_[number];
  const std::uint32_t since_s = op->command.facts.since_s;
  const Record record{op->command.key, op->command.facts, region.next_block, since_s != 0 ? since_s : env_.unix_s()};
  region.next_block += record.blocks();
  ++region.writes;
  op->head = AlignedBytes(kBlockBytes);
  encode_record(id_of(number), record, op->head.span());
  op->on_device = true;
  op->began_ns = clock_.now_ns();
  writing_bytes_ += op->command.slot.size();
  IoRequest request;
  request.kind = IoRequest::Kind::kWrite;
  request.fd = volume_->file.get();
  request.offset = volume_->offset(number, record.block);
  request.parts = {op->head.span(), op->command.slot};
  device_.start(request, [this, op, record, number](int error) { write_done(op, record, number, error); });
}

void DiskEngine::write_done(const OpPtr& op, const Record& record, std::uint32_t number, int error) {
  Region& region = table_[number];
  --region.writes;
  writing_bytes_ -= op->command.slot.size();
  op->on_device = false;
  if (error == 0) write_window_.ended(op->began_ns, clock_.now_ns(), op->command.slot.size());
  const bool good = error == 0 && !op->done && !op->cancelled;
  if (error != 0) {
    region.broken = true;
    probe_.write_failed(error);
  } else if (good) {
    region.records.push_back(record);
    // Of two writes in flight the later append is the newer record, even if it ended first.
    // Recovery decides the same way.
    const std::optional<Located> known = catalog_.find(record.key);
    if (!known || Position{table_[known->region].sequence, known->record.block} <
                      Position{region.sequence, record.block})  // mutation: last-append-live
      catalog_.insert(record, number);
  }
  if (!good) tombstones_.bury(number, record);  // mutation: failed-put-buried
  if (op->done) return operations_.released(op);
  if (good) health_.proven();
  if (good) return operations_.finish(op, {});
  operations_.finish(op, error != 0 ? base::file_failure(error, "disk write") : Status(Code::kNotFound, "dropped meanwhile"));
}

// Fails waiting operations at once when the device hangs or refuses.
void DiskEngine::fail_waiting(bool puts, bool gets) {
  const Status why{Code::kUnavailable, health_.state().reason};
  if (puts)
    for (const OpPtr& op : std::exchange(writes_, {})) operations_.finish(op, why);
  if (gets) chunks_.fail_waiting();
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
  drops_.lost({Code::kUnavailable, health_.state().reason});
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

bool DiskEngine::closed() const {
  if (!operations_.live().empty() || device_.in_flight() != 0) return false;
  if (!volume_ || health_.is(Health::kLost) || health_.is(Health::kWrites)) return true;
  return tombstones_.empty() && !table_.in_state(RegionState::kActive) && !table_.in_state(RegionState::kClosing);
}

void DiskEngine::abandon(const Status& why) {
  chunks_.clear();
  writes_.clear();
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
  counters.read_window_bytes = chunks_.read_window_bytes();
  counters.write_window_bytes = write_window_.bytes();
  return counters;
}

}  // namespace larder::disk
