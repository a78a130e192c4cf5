// The way of a put, a get and a look.
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "sidecar/tiers/remote/remote_engine.h"

namespace larder::remote {

using tiers::Operation;

namespace {

constexpr std::size_t kPutsAhead = 128;  // that have looked, or do, and are not sent yet: so that the looks cost no time

std::uint32_t unix_s() {
  return static_cast<std::uint32_t>(::time(nullptr));
}

std::uint64_t age_ms_of(std::uint32_t since_s) {
  const std::uint32_t now_s = unix_s();
  return since_s < now_s ? std::uint64_t{now_s - since_s} * 1000 : 0;
}

// No other put has it, of whomever. 0: there is none to be had.
std::uint64_t draw_writing() {
  std::uint64_t number = 0;
  return ::getrandom(&number, sizeof(number), 0) == sizeof(number) ? number : 0;
}

}  // namespace

void RemoteEngine::pump_reads() {
  while (!reads_.empty() && backend_.ready() && health_.state().takes_gets) {
    const OpPtr op = reads_.front();
    if (!op->done && reading_bytes_ >= options_.read_bytes_in_flight) return;
    reads_.pop_front();
    if (op->done) continue;
    op->command.operation == Operation::kLook ? start_look(op) : start_get(op);
  }
}

void RemoteEngine::start_get(const OpPtr& op) {
  if (known_.hidden(op->command.key.namespace_id)) return finish(op, {Code::kNotFound, "dropped"});
  op->started = true;
  moves(op, op->command.slot.size());
  const std::optional<Record> known = known_.find(op->command.key, clock_.now_ns());
  if (!known) return ask_record(op);
  op->record = *known;
  ask_parts(op);
}

// What stands under its key; of what is longer than a record one byte more than that.
Status RemoteEngine::read_record(const OpPtr& op, const tiers::ChunkKey& key, Then then) {
  const std::string name = record_key(options_.prefix, key);
  if (Status refused = backend_.refusal(name, Lane::kReads); !refused.ok()) return refused;
  return ask(Lane::kReads, op, {"GETRANGE", name, "0", kRecordEnd}, "$", std::move(then));
}

void RemoteEngine::ask_record(const OpPtr& op) {
  op->missing = false;
  op->failed = {};
  const Status asked =
      read_record(op, op->command.key, [this, op](const Status& lost, const Reply& reply) { record_came(op, lost, reply); });
  if (!asked.ok()) finish(op, asked);
}

void RemoteEngine::record_came(const OpPtr& op, const Status& lost, const Reply& reply) {
  if (op->done) return;
  const tiers::ChunkKey& key = op->command.key;
  const std::optional<Record> record = decode_record(key, reply.text);
  const bool answer = answered(op, lost, reply);
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  if (answer && reply.text.empty()) {
    counters_.chunks_evicted += known_.erase(key) ? 1 : 0;
    return finish(op, {Code::kNotFound, ""});
  }
  if (answer && record && was_forgotten(*record)) return finish(op, {Code::kNotFound, "found bad before"});
  if (answer && record && record->writing == op->partial) {
    counters_.chunks_evicted += known_.erase(key) ? 1 : 0;
    remove(Unwanted::What::kWriting, *record);
    return finish(op, {Code::kNotFound, "a part is not there"});
  }
  if (answer && !record) op->failed = {Code::kDataLoss, "what stands under the chunk's key is not its record"};
  if (!op->failed.ok()) {
    if (op->failed.code() == Code::kDataLoss && lost.ok()) {
      ++counters_.records_corrupt;
      known_.erase(key);
      remove(Unwanted::What::kGarbage, {key, {}});
    }
    return finish(op, op->failed);
  }
  know(*record, left_ms(*record));
  op->record = *record;
  ask_parts(op);
}

void RemoteEngine::ask_parts(const OpPtr& op) {
  const Record& record = op->record;
  if (op->command.slot.size() < record.facts.slot_bytes())
    return finish(op, {Code::kInvalidArgument, "the slot is smaller than what was stored"});
  if (Status refused = refusal_of(record, Lane::kReads); !refused.ok()) return finish(op, refused);
  op->waiting = record.parts();
  moves(op, record.facts.slot_bytes());
  for (std::uint32_t number = 0; number < record.parts(); ++number) {
    const std::size_t bytes = record.part_size(number);
    const std::string key = part_key(options_.prefix, record, number);
    Request request;
    request.around.before = format_command(std::array<std::string_view, 2>{"GET", key});
    request.expect = {"$", bytes, op->command.slot.subspan(record.part_offset(number), bytes)};
    request.owner = op->serial;
    request.tells = Lane::kReads;
    request.then = [this, op, bytes](const Status& lost, const Reply& reply) { part_came(op, bytes, lost, reply); };
    // Every other one: master and replica send at the same time.
    if (options_.read_replicas && !op->masters && number % 2 == op->serial % 2 && backend_.ask_replica(key, request)) {
      op->by_replica = true;
      continue;
    }
    if (const Status asked = backend_.ask(Lane::kReads, key, std::move(request)); !asked.ok())
      part_came(op, bytes, asked, {});  // others may be on their way into the slot: it ends when they have
  }
}

void RemoteEngine::part_came(const OpPtr& op, std::size_t wanted, const Status& lost, const Reply& reply) {
  if (op->done) return;
  moves(op, op->moving - wanted);
  const bool answer = answered(op, lost, reply);
  // Less than the part, or none: nothing of what came counts.
  if (answer && (reply.kind != Reply::Kind::kPayload || static_cast<std::size_t>(reply.integer) != wanted)) op->missing = true;
  if (--op->waiting == 0) parts_came(op);
}

void RemoteEngine::parts_came(const OpPtr& op) {
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  // A replica may not have been told of it yet, or be none any more: the masters know.
  if (std::exchange(op->by_replica, false) && (op->missing || !op->failed.ok())) {
    op->masters = true;
    op->missing = false;
    op->failed = {};
    return ask_parts(op);
  }
  if (op->failed.code() == Code::kDataLoss) op->missing = true;  // another type under a part's key
  if (!op->failed.ok() && !op->missing) return finish(op, op->failed);
  if (!op->missing) return finish(op, {}, op->record.facts);
  // What was known may be of yesterday, or another larderd has just put it anew.
  op->partial = op->record.writing;
  ask_record(op);
}

void RemoteEngine::start_look(const OpPtr& op) {
  op->started = true;
  const std::vector<tiers::ChunkKey>& keys = op->command.keys;
  op->there.assign(keys.size(), false);
  op->waiting = keys.size();
  for (std::size_t number = 0; number < keys.size() && !op->done; ++number) {
    const Status asked = read_record(
        op, keys[number], [this, op, number](const Status& lost, const Reply& reply) { key_looked_at(op, number, lost, reply); });
    if (!asked.ok()) key_looked_at(op, number, asked, {});
  }
}

void RemoteEngine::key_looked_at(const OpPtr& op, std::size_t number, const Status& lost, const Reply& reply) {
  if (op->done) return;
  const tiers::ChunkKey& key = op->command.keys[number];
  const bool answer = answered(op, lost, reply);
  op->answered = op->answered || answer;
  if (answer && !op->cancelled) {
    const std::optional<Record> record = decode_record(key, reply.text);
    const bool evicted = std::ranges::find(op->evicted, key) != op->evicted.end();
    if (record && !evicted && !was_forgotten(*record) && !known_.hidden(key.namespace_id)) {
      know(*record, left_ms(*record));
      op->there[number] = true;
    } else {
      known_.erase(key);
    }
  }
  if (op->failed.code() == Code::kDataLoss && lost.ok()) op->failed = {};  // another type under that key: not there
  if (--op->waiting != 0) return;
  // With some nodes of a Cluster away, what they have is not there; the others have answered.
  if (op->answered && options_.mode == Mode::kCluster) op->failed = {};
  if (op->cancelled) op->there.assign(op->there.size(), false);
  finish(op, op->failed);
}

void RemoteEngine::pump_writes() {
  if (!backend_.ready() || !health_.state().takes_puts) return;
  send_looked();
  while (!writes_.empty() && looking_ + looked_.size() < kPutsAhead) {
    const OpPtr op = writes_.front();
    const Command& command = op->command;
    // Of two puts of one key the later one ends later.
    const auto same_key = [&](const OpPtr& other) {
      return other->started && other->command.operation == Operation::kPut && other->command.key == command.key;
    };
    if (!op->done && std::ranges::any_of(live_, same_key)) return;
    const Unwanted* unwanted = op->done ? nullptr : unwanted_before(*op);
    if (unwanted != nullptr && unwanted->waited_for()) return;
    writes_.pop_front();
    if (op->done) continue;
    if (unwanted != nullptr) {
      finish(op, {Code::kUnavailable, "the server does not remove what stood under its key"});
      continue;
    }
    if (const Drop* drop = dropping(command.key.namespace_id)) {
      finish(op, {Code::kUnavailable, "its namespace is being dropped" + (drop->refused.empty() ? "" : ": " + drop->refused)});
      continue;
    }
    const std::optional<Record> known = known_.find(command.key, clock_.now_ns());
    if (known && same_bytes(known->facts, command.facts)) {
      ++counters_.puts_present;
      finish(op, {});
      continue;
    }
    start_put(op);
  }
}

// First a look at what is there: others may have put the same, and so may an earlier life of this larderd.
void RemoteEngine::start_put(const OpPtr& op) {
  op->record = {op->command.key, op->command.facts, kPartBytes};
  std::uint32_t& since_s = op->record.facts.since_s;
  const std::uint64_t age_ms = since_s == 0 ? 0 : age_ms_of(since_s);
  if (since_s == 0) since_s = unix_s();
  if (options_.ttl_ms != 0 && age_ms >= options_.ttl_ms) return finish(op, {Code::kNotFound, "its time to live is over"});
  op->ttl_ms = options_.ttl_ms - std::min(age_ms, options_.ttl_ms);
  const std::string key = record_key(options_.prefix, op->record.key);
  if (Status refused = backend_.refusal(key, Lane::kWrites); !refused.ok()) return finish(op, refused);
  op->started = true;
  ++looking_;
  // Not behind what is being written, which would have to end first.
  const Status asked =
      read_record(op, op->record.key, [this, op](const Status& lost, const Reply& reply) { put_looked(op, lost, reply); });
  if (!asked.ok()) put_looked(op, asked, {});
}

void RemoteEngine::put_looked(const OpPtr& op, const Status& lost, const Reply& reply) {
  if (op->done) return;  // and counted there
  --looking_;
  op->looked = true;
  if (!lost.ok()) return finish(op, lost);
  const std::optional<Record> there = decode_record(op->record.key, reply.text);
  if (there && !op->cancelled && !was_forgotten(*there) && same_bytes(there->facts, op->record.facts)) {
    ++counters_.puts_present;
    know(*there, left_ms(*there));
    return finish(op, {});
  }
  if (!health_.state().takes_puts) return finish(op, {Code::kUnavailable, health_.state().reason});
  // What is no record has to be gone first: to put ours tells what stood there, which may be of any length, or no string.
  if (is_garbage(reply, there)) unlink({record_key(options_.prefix, op->record.key)}, 1, nullptr);
  looked_.push_back(op);
}

void RemoteEngine::send_looked() {
  while (!looked_.empty()) {
    const OpPtr op = looked_.front();
    if (!op->done && writing_bytes_ >= options_.write_bytes_in_flight) return;
    looked_.pop_front();
    if (op->done) continue;
    if (op->cancelled)
      finish(op, {Code::kNotFound, "dropped meanwhile"});
    else
      send_parts(op);
  }
}

// The record follows when they are all in, so that it never speaks of what is not.
void RemoteEngine::send_parts(const OpPtr& op) {
  Record record = op->record;
  record.writing = draw_writing();
  if (record.writing == 0) return finish(op, {Code::kUnavailable, "the system has no random number"});
  if (Status refused = refusal_of(record, Lane::kWrites); !refused.ok()) return finish(op, refused);
  op->record = record;
  moves(op, op->command.slot.size());
  op->waiting = op->record.parts();
  const std::string ttl = std::to_string(op->ttl_ms);
  std::vector<std::string_view> after;
  if (op->ttl_ms != 0) after = {"PX", ttl};
  for (std::uint32_t number = 0; number < op->record.parts(); ++number) {
    const std::size_t bytes = op->record.part_size(number);
    const std::string name = part_key(options_.prefix, op->record, number);
    Request request;
    request.around = format_around(std::array<std::string_view, 2>{"SET", name}, bytes, after);
    request.body = op->command.slot.subspan(op->record.part_offset(number), bytes);
    request.expect.types = "+";
    request.owner = op->serial;
    request.tells = Lane::kWrites;
    request.then = [this, op, bytes](const Status& lost, const Reply& reply) { part_stored(op, bytes, lost, reply); };
    if (Status refused = backend_.ask(Lane::kWrites, name, std::move(request)); !refused.ok())
      part_stored(op, bytes, refused, {});
  }
}

void RemoteEngine::part_stored(const OpPtr& op, std::size_t bytes, const Status& lost, const Reply& reply) {
  if (op->done) return;
  moves(op, op->moving - bytes);
  answered(op, lost, reply);
  if (--op->waiting == 0) parts_stored(op);
}

void RemoteEngine::parts_stored(const OpPtr& op) {
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  if (!op->failed.ok()) return finish(op, op->failed);
  const std::string key = record_key(options_.prefix, op->record.key), ttl = std::to_string(op->ttl_ms),
                    record = encode_record(op->record);
  std::vector<std::string_view> words{"SET", key, record, "GET"};
  if (op->ttl_ms != 0) words.insert(words.end(), {"PX", ttl});
  Request request =
      request_of(op, words, "$", [this, op](const Status& lost, const Reply& reply) { record_stored(op, lost, reply); });
  request.owner = 0;  // a deadline takes it not back: the answer tells what was replaced
  recording_.push_back(op);
  if (const Status asked = backend_.ask(Lane::kWrites, key, std::move(request)); !asked.ok()) record_stored(op, asked, {});
}

void RemoteEngine::record_stored(const OpPtr& op, const Status& lost, const Reply& reply) {
  std::erase(recording_, op);
  if (!answered(op, lost, reply)) return finish(op, op->failed);
  if (const std::optional<Record> former = decode_record(op->record.key, reply.text)) leave_behind(*former);
  if (op->done) return;
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  know(op->record, op->ttl_ms);
  finish(op, {});
}

// Why a chunk cannot be stored or loaded as a whole just now: then nothing of it is moved.
Status RemoteEngine::refusal_of(const Record& record, Lane lane) const {
  if (options_.mode != Mode::kCluster) return {};
  Status refused = backend_.refusal(record_key(options_.prefix, record.key), lane);
  for (std::uint32_t number = 0; refused.ok() && number < record.parts(); ++number)
    refused = backend_.refusal(part_key(options_.prefix, record, number), lane);
  return refused;
}

void RemoteEngine::know(const Record& record, std::uint64_t left_ms) {
  known_.insert(record, options_.ttl_ms == 0 ? UINT64_MAX : clock_.now_ns() + left_ms * 1'000'000);
}

// Of a record that was found: at most so much of its time is left. Its second may just have begun, or be over.
std::uint64_t RemoteEngine::left_ms(const Record& record) const {
  const std::uint64_t age_ms = record.facts.since_s == 0 ? 0 : age_ms_of(record.facts.since_s);
  const std::uint64_t least_age_ms = age_ms < 1000 ? 0 : age_ms - 1000;
  return options_.ttl_ms - std::min(least_age_ms, options_.ttl_ms);
}

}  // namespace larder::remote
