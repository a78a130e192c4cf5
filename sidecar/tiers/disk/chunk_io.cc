#include "sidecar/tiers/disk/chunk_io.h"

#include <utility>

namespace larder::disk {

void ChunkIo::pump_reads() {
  while (!reads_.empty() && device_.has_room() && health_.state().takes_gets && volume_) {
    const OpPtr op = reads_.front();
    const std::size_t bytes = op->command.slot.size();
    if (!op->done && !read_window_.lets(reading_bytes_, bytes)) return;
    reads_.pop_front();
    if (op->done) continue;
    const std::optional<Located> located = catalog_.find(op->command.key);
    if (!located) {
      operations_.finish(op, {Code::kNotFound, ""});
    } else if (ttl_.expired(located->record.written_s, env_.unix_s())) {
      counters_.chunks_expired += catalog_.erase(op->command.key, located->region, located->record.block) ? 1 : 0;
      operations_.finish(op, {Code::kNotFound, "expired"});
    } else if (bytes < located->record.facts.slot_bytes()) {
      operations_.finish(op, {Code::kInvalidArgument, "the slot is smaller than what was stored"});
    } else {
      start_read(op, *located);
    }
  }
}

void ChunkIo::start_read(const OpPtr& op, const Located& located) {
  op->head = AlignedBytes(kBlockBytes);
  op->on_device = true;
  op->began_ns = clock_.now_ns();
  ++table_[located.region].reads;
  reading_bytes_ += op->command.slot.size();
  IoRequest request;
  request.fd = volume_->file.get();
  request.offset = volume_->offset(located.region, located.record.block);
  request.parts = {op->head.span(), op->command.slot.first(static_cast<std::size_t>(located.record.facts.slot_bytes()))};
  device_.start(request, [this, op, located, id = file_.id_of(located.region)](int error) { read_done(op, located, id, error); });
}

void ChunkIo::read_done(const OpPtr& op, const Located& located, const RegionId& id, int error) {
  --table_[located.region].reads;
  reading_bytes_ -= op->command.slot.size();
  op->on_device = false;
  if (error == 0) read_window_.ended(op->began_ns, clock_.now_ns(), op->command.slot.size());
  const std::optional<Record> found = error == 0 ? decode_record(id, op->head.span()) : std::nullopt;
  if (error == 0) probe_.read_worked();
  if (!found || *found != located.record) {
    counters_.records_corrupt += error == 0 ? 1 : 0;
    catalog_.erase(op->command.key, located.region, located.record.block);
    if (error != 0) probe_.read_failed(error);
  }
  if (op->done) return operations_.released(op);
  if (op->cancelled) return operations_.finish(op, {Code::kNotFound, "dropped meanwhile"});
  if (error != 0) return operations_.finish(op, Status::from_errno(error, "disk read"));
  if (!found || *found != located.record)  // mutation: read-right-record
    return operations_.finish(op, {Code::kDataLoss, "the record on disk is not that chunk's"});
  tiers::ChunkFacts facts = found->facts;
  facts.since_s = found->written_s;
  operations_.finish(op, {}, facts);
}

void ChunkIo::fail_waiting() {
  const Status why{Code::kUnavailable, health_.state().reason};
  for (const OpPtr& op : std::exchange(reads_, {})) operations_.finish(op, why);
}

}  // namespace larder::disk
