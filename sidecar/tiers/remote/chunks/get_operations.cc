#include "sidecar/tiers/remote/chunks/get_operations.h"

#include <algorithm>
#include <array>
#include <utility>

namespace larder::remote {

using tiers::Operation;

void GetOperations::pump() {
  while (!reads_.empty() && backend_.ready() && health_.takes_gets()) {
    const OpPtr op = reads_.front();
    // One chunk may exceed the window: an accepted chunk of any size must get through.
    if (!op->done && operations_.reading_bytes() >= options_.read_bytes_in_flight) return;
    reads_.pop_front();
    if (op->done) continue;
    op->command.operation == Operation::kProbe ? start_probe(op) : start_get(op);
  }
}

void GetOperations::fail_waiting(const Status& why) {
  for (const OpPtr& op : std::exchange(reads_, {})) finish(op, why);
}

void GetOperations::start_get(const OpPtr& op) {
  // A drop hides its namespace before the thread hears of it. A get that was accepted before must
  // not bring the chunk back.
  if (known_.hidden(op->command.key.namespace_id)) return finish(op, {Code::kNotFound, "dropped"});
  op->started = true;
  operations_.moves(op, op->command.slot.size());
  // A known record saves one round trip. If the server has lost or replaced it, parts_came() reads
  // the record anew.
  const std::optional<Record> known = known_.find(op->command.key, clock_.now_ns());
  if (!known) return ask_record(op);
  op->record = *known;
  ask_parts(op);
}

void GetOperations::ask_record(const OpPtr& op) {
  op->missing = false;
  op->failed = {};
  const Status asked = commands_.read_record(
      op, op->command.key,
      [this, op](const Status& lost, const Reply& reply) { record_came(op, lost, reply); });
  if (!asked.ok()) finish(op, asked);
}

void GetOperations::record_came(const OpPtr& op, const Status& lost, const Reply& reply) {
  if (op->done) return;
  const tiers::ChunkKey& key = op->command.key;
  const std::optional<Record> record = decode_record(key, reply.text);
  const bool answer = ServerCommands::answered(op, lost, reply);
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  if (answer && reply.text.empty()) {
    operations_.counters().chunks_evicted += known_.erase(key) ? 1 : 0;
    return finish(op, {Code::kNotFound, ""});
  }
  // An engine has found these bytes bad. The removal of the record is still under way.
  if (answer && record && garbage_.was_forgotten(*record))
    return finish(op, {Code::kNotFound, "found bad before"});
  // The same writing twice, with a part missing in between: the server has evicted the part. A new
  // writing means that another larderd has stored the chunk again, and the parts are asked for
  // once more.
  if (answer && record && record->writing == op->partial) {  // mutation: missing-part-again
    operations_.counters().chunks_evicted += known_.erase(key) ? 1 : 0;
    garbage_.remove(GarbageQueue::Garbage::What::kWriting, *record);
    return finish(op, {Code::kNotFound, "a part is not there"});
  }
  if (answer && !record)
    op->failed = {Code::kDataLoss, "the value under the chunk's key is not the chunk's record"};
  if (!op->failed.ok()) {
    // Only an answer of the server proves a bad value. A broken reply closes the connection and
    // may hit any key.
    if (op->failed.code() == Code::kDataLoss && lost.ok()) {
      ++operations_.counters().records_corrupt;
      known_.erase(key);
      garbage_.remove(GarbageQueue::Garbage::What::kGarbage, {key, {}});
    }
    return finish(op, op->failed);
  }
  commands_.know(*record, commands_.left_ms(*record));
  op->record = *record;
  ask_parts(op);
}

void GetOperations::ask_parts(const OpPtr& op) {
  const Record& record = op->record;
  if (op->command.slot.size() < record.facts.slot_bytes())
    return finish(op, {Code::kInvalidArgument, "the slot is smaller than the stored chunk"});
  // Before the first byte: one sick node makes the chunk useless, so the other nodes should send
  // nothing.
  if (Status why = commands_.refusal_of(record, Lane::kReads); !why.ok())
    return finish(op, why);  // mutation: bad-node-gets
  op->waiting = record.parts();
  operations_.moves(op, record.facts.slot_bytes());
  for (std::uint32_t number = 0; number < record.parts(); ++number) {
    const std::size_t bytes = record.part_size(number);
    const std::string key = part_key(options_.prefix, record, number);
    Request request;
    request.around.before = format_command(std::array<std::string_view, 2>{"GET", key});
    // The payload goes from the socket directly to its place in the slot. The length is read
    // before, so a longer value never overruns the part.
    request.expect = {"$", bytes, op->command.slot.subspan(record.part_offset(number), bytes)};
    // A missed deadline takes back all commands of this owner, or closes the connection, before
    // the slot is given back. No reply can write into the slot later.
    request.owner = op->serial;
    request.tells = Lane::kReads;
    request.then = [this, op, bytes](const Status& lost, const Reply& reply) {
      part_came(op, bytes, lost, reply);
    };
    // Every other part: master and replica send in parallel.
    if (options_.read_replicas && !op->masters && number % 2 == op->serial % 2 &&
        backend_.ask_replica(key, request)) {
      op->by_replica = true;
      continue;
    }
    if (const Status asked = backend_.ask(Lane::kReads, key, std::move(request)); !asked.ok())
      part_came(op, bytes, asked, {});  // other parts may be in flight into the slot: wait for them
  }
}

void GetOperations::part_came(const OpPtr& op, std::size_t wanted, const Status& lost,
                              const Reply& reply) {
  if (op->done) return;
  // Part by part: the next chunk begins while the last parts of this one are still coming.
  operations_.moves(op, op->moving - wanted);  // mutation: get-overlap
  const bool answer = ServerCommands::answered(op, lost, reply);
  // A short or missing part makes the chunk a miss.
  if (answer &&
      (reply.kind != Reply::Kind::kPayload || static_cast<std::size_t>(reply.integer) != wanted))
    op->missing = true;
  if (--op->waiting == 0) parts_came(op);
}

void GetOperations::parts_came(const OpPtr& op) {
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  // A replica may lack new parts, or may have lost its role: ask the masters.
  if (std::exchange(op->by_replica, false) &&
      (op->missing || !op->failed.ok())) {  // mutation: replica-fallback
    op->masters = true;
    op->missing = false;
    op->failed = {};
    return ask_parts(op);
  }
  if (op->failed.code() == Code::kDataLoss)
    op->missing = true;  // another type under the key of a part
  // A missing part is looked into even beside a failure: the record may have been replaced, and
  // the second read repeats the failure anyway.
  if (!op->failed.ok() && !op->missing) return finish(op, op->failed);
  if (!op->missing) return finish(op, {}, op->record.facts);
  // The known record may be old, or another larderd may have just put the chunk again: read the
  // record.
  // Recorded so a second miss of the same writing ends the get: the two reads could otherwise
  // follow each other for ever.
  op->partial = op->record.writing;
  ask_record(op);
}

void GetOperations::start_probe(const OpPtr& op) {
  op->started = true;
  const std::vector<tiers::ChunkKey>& keys = op->command.keys;
  op->there.assign(keys.size(), false);
  op->waiting = keys.size();
  for (std::size_t number = 0; number < keys.size() && !op->done; ++number) {
    const Status asked = commands_.read_record(
        op, keys[number], [this, op, number](const Status& lost, const Reply& reply) {
          key_looked_at(op, number, lost, reply);
        });
    // Counted as an answer: the probe ends with the last key, and other keys may belong to working
    // servers.
    if (!asked.ok()) key_looked_at(op, number, asked, {});
  }
}

void GetOperations::key_looked_at(const OpPtr& op, std::size_t number, const Status& lost,
                                  const Reply& reply) {
  if (op->done) return;
  const tiers::ChunkKey& key = op->command.keys[number];
  const bool answer = ServerCommands::answered(op, lost, reply);
  op->answered = op->answered || answer;
  if (answer && !op->cancelled) {
    const std::optional<Record> record = decode_record(key, reply.text);
    const bool evicted = std::ranges::find(op->evicted, key) != op->evicted.end();
    if (record && !evicted && !garbage_.was_forgotten(*record) &&
        !known_.hidden(key.namespace_id)) {
      commands_.know(*record, commands_.left_ms(*record));
      // Only a valid record counts. A foreign value or one of another version says "absent", as a
      // get would.
      op->there[number] = true;
    } else {
      known_.erase(key);
    }
  }
  if (op->failed.code() == Code::kDataLoss && lost.ok())
    op->failed = {};  // another type under the key: absent
  if (--op->waiting != 0) return;
  // Keys of unreachable nodes of a Cluster count as absent; the replies of the other nodes count.
  if (op->answered && options_.mode == Mode::kCluster) op->failed = {};
  if (op->cancelled) op->there.assign(op->there.size(), false);
  finish(op, op->failed);
}

}  // namespace larder::remote
