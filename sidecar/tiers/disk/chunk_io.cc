#include "sidecar/tiers/disk/chunk_io.h"

#include <utility>

#include "sidecar/base/file_limit.h"

namespace larder::disk {
namespace {

// Beside reads, writes get a quarter of their window: engines wait for reads.
constexpr std::uint64_t kShareBesideReads = 4;

}  // namespace

void ChunkIo::pump_reads() {
  while (!reads_.empty() && device_.has_room() && health_.state().takes_gets && volume_) {
    const OpPtr op = reads_.front();
    const std::size_t bytes = op->command.slot.size();
    // The first waiting read decides, although a smaller one behind it may fit: large chunks would
    // starve otherwise.
    if (!op->done && !read_window_.lets(reading_bytes_, bytes)) return;
    reads_.pop_front();
    if (op->done) continue;
    // Looked up here and not at acceptance: the chunk may have moved or expired while the read
    // waited.
    const std::optional<Located> located = catalog_.find(op->command.key);
    if (!located) {
      operations_.finish(op, {Code::kNotFound, ""});
    } else if (ttl_.expired(located->record.written_s, env_.unix_s())) {
      counters_.chunks_expired +=
          catalog_.erase(op->command.key, located->region, located->record.block) ? 1 : 0;
      operations_.finish(op, {Code::kNotFound, "expired"});
    } else if (bytes < located->record.facts.slot_bytes()) {
      operations_.finish(op, {Code::kInvalidArgument, "the slot is smaller than the stored chunk"});
    } else {
      start_read(op, *located);
    }
  }
}

void ChunkIo::start_read(const OpPtr& op, const Located& located) {
  // Header and slot come in one request. The header goes into memory of its own, because the slot
  // must receive the bytes of the arena alone.
  op->head = AlignedBytes(kBlockBytes);
  op->on_device = true;
  op->began_ns = clock_.now_ns();
  // A region with reads in flight is not opened, so new appends cannot overwrite the bytes under a
  // read.
  ++table_[located.region].reads;
  reading_bytes_ += op->command.slot.size();
  IoRequest request;
  request.fd = volume_->file.get();
  request.offset = volume_->offset(located.region, located.record.block);
  request.parts = {
      op->head.span(),
      op->command.slot.first(static_cast<std::size_t>(located.record.facts.slot_bytes()))};
  device_.start(request, [this, op, located, id = file_.id_of(located.region)](int error) {
    read_done(op, located, id, error);
  });
}

void ChunkIo::read_done(const OpPtr& op, const Located& located, const RegionId& id, int error) {
  --table_[located.region].reads;
  reading_bytes_ -= op->command.slot.size();
  op->on_device = false;
  // A failed request says nothing about the speed of the device: an EIO may return at once, or
  // after the retries of the drive.
  if (error == 0) read_window_.ended(op->began_ns, clock_.now_ns(), op->command.slot.size());
  const std::optional<Record> found =
      error == 0 ? decode_record(id, op->head.span()) : std::nullopt;
  if (error == 0) probe_.read_worked();
  // All fields must agree: volume, region, sequence, block, key and facts. A lost write or a
  // swapped sector leaves an intact header of another record here. The payload is verified later,
  // by the engine.
  if (!found || *found != located.record) {
    counters_.records_corrupt += error == 0 ? 1 : 0;
    catalog_.erase(op->command.key, located.region, located.record.block);
    if (error != 0) probe_.read_failed(error);
  }
  // The deadline passed during the read: the caller has its answer already, and gets its slot back
  // only now.
  if (op->done) return operations_.released(op);
  if (op->cancelled) return operations_.finish(op, {Code::kNotFound, "dropped meanwhile"});
  if (error != 0) return operations_.finish(op, Status::from_errno(error, "disk read"));
  if (!found || *found != located.record)  // mutation: read-right-record
    return operations_.finish(op, {Code::kDataLoss, "the record on disk is not that chunk's"});
  tiers::ChunkFacts facts = found->facts;
  // Memory keeps the age of the chunk, so a later write to a tier does not start its time to live
  // anew.
  facts.since_s = found->written_s;
  operations_.finish(op, {}, facts);
}

void ChunkIo::pump_writes() {
  // Engines wait for reads: beside reads, writes get only a part of the device.
  const std::uint64_t share = reading_bytes_ != 0 || !reads_.empty() ? kShareBesideReads : 1;
  while (!writes_.empty() && device_.has_room() && health_.state().takes_puts && volume_) {
    const OpPtr op = writes_.front();
    if (op->done) {
      writes_.pop_front();
      continue;
    }
    if (!write_window_.lets(writing_bytes_, op->command.slot.size(), share)) return;
    const std::optional<Located> known = catalog_.find(op->command.key);
    const tiers::ChunkFacts& facts = op->command.facts;
    // The chunk is on the disk already. The same bytes once more would only wear the device.
    if (known && known->record.facts == facts &&
        !ttl_.expired(known->record.written_s, env_.unix_s())) {
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
    // The next region is still being opened: the write keeps its place in the queue.
    if (!number) return;
    writes_.pop_front();
    start_write(op, *number);
  }
}

void ChunkIo::start_write(const OpPtr& op, std::uint32_t number) {
  Region& region = table_[number];
  const std::uint32_t since_s = op->command.facts.since_s;
  const Record record{op->command.key, op->command.facts, region.next_block,
                      since_s != 0 ? since_s : env_.unix_s()};
  // The place is taken before the write ends, so several appends to the region are in flight at
  // once. A failed append leaves a hole, which a grave marks for the scan.
  region.next_block += record.blocks();
  ++region.writes;
  op->head = AlignedBytes(kBlockBytes);
  encode_record(file_.id_of(number), record, op->head.span());
  op->on_device = true;
  op->began_ns = clock_.now_ns();
  writing_bytes_ += op->command.slot.size();
  IoRequest request;
  request.kind = IoRequest::Kind::kWrite;
  request.fd = volume_->file.get();
  request.offset = volume_->offset(number, record.block);
  request.parts = {op->head.span(), op->command.slot};
  device_.start(request,
                [this, op, record, number](int error) { write_done(op, record, number, error); });
}

void ChunkIo::write_done(const OpPtr& op, const Record& record, std::uint32_t number, int error) {
  Region& region = table_[number];
  --region.writes;
  writing_bytes_ -= op->command.slot.size();
  op->on_device = false;
  if (error == 0) write_window_.ended(op->began_ns, clock_.now_ns(), op->command.slot.size());
  const bool good = error == 0 && !op->done && !op->cancelled;
  if (error != 0) {
    // Bytes behind a failed write may be lost too. The region is closed with the records that
    // succeeded.
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
  // A failed or dropped put may have reached the disk all the same. Without a grave the next
  // larderd would find an unacknowledged chunk.
  if (!good) tombstones_.bury(number, record);  // mutation: failed-put-buried
  if (op->done) return operations_.released(op);
  // A record proves a working device. An opened region alone does not, see Health::clear().
  if (good) health_.proven();
  if (good) return operations_.finish(op, {});
  operations_.finish(op, error != 0 ? base::file_failure(error, "disk write")
                                    : Status(Code::kNotFound, "dropped meanwhile"));
}

void ChunkIo::fail_waiting(bool puts, bool gets) {
  const Status why{Code::kUnavailable, health_.state().reason};
  const auto fail = [&](std::deque<OpPtr>& waiting) {
    // The queue is emptied first: finish() may lead back to the queue.
    for (const OpPtr& op : std::exchange(waiting, {})) operations_.finish(op, why);
  };
  if (puts) fail(writes_);
  if (gets) fail(reads_);
}

void ChunkIo::clear() {
  reads_.clear();
  writes_.clear();
}

void ChunkIo::fill(tiers::TierCounters& counters) const {
  counters.read_window_bytes = read_window_.bytes();
  counters.write_window_bytes = write_window_.bytes();
}

}  // namespace larder::disk
