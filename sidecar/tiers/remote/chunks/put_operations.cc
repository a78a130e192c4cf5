#include "sidecar/tiers/remote/chunks/put_operations.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/tiers/remote/chunks/record_age.h"

namespace larder::remote {

using tiers::Operation;

namespace {

// Puts that read the earlier record ahead, so that the read costs no time.
constexpr std::size_t kPutsAhead = 128;

// A random number that no other put of any larderd has. 0: the system has no random number.
std::uint64_t draw_writing() {
  std::uint64_t number = 0;
  return ::getrandom(&number, sizeof(number), 0) == sizeof(number)
             ? number
             : 0;  // mutation: part-key-random
}

}  // namespace

void PutOperations::pump() {
  if (!backend_.ready() || !health_.takes_puts()) return;
  send_probed();
  while (!writes_.empty() && looking_ + probed_.size() < kPutsAhead) {
    const OpPtr op = writes_.front();
    const Command& command = op->command;
    // Puts of one key end in their order.
    const auto same_key = [&](const OpPtr& other) {
      return other->started && other->command.operation == Operation::kPut &&
             other->command.key == command.key;
    };
    if (!op->done && std::ranges::any_of(operations_.live(), same_key)) return;
    const GarbageQueue::Garbage* garbage = op->done ? nullptr : garbage_.before(*op);
    // The removal would delete the new record as well. It takes a round trip or two, so the queue
    // waits.
    if (garbage != nullptr && garbage->waited_for()) return;
    writes_.pop_front();
    if (op->done) continue;
    if (garbage != nullptr) {
      finish(op, {Code::kUnavailable, "the server does not remove the old value of the key"});
      continue;
    }
    if (const NamespaceDrops::Drop* drop = drops_.of(command.key.namespace_id)) {
      finish(op, {Code::kUnavailable, "its namespace is being dropped" +
                                          (drop->refused.empty() ? "" : ": " + drop->refused)});
      continue;
    }
    const std::optional<Record> known = known_.find(command.key, clock_.now_ns());
    // Several larderd share the server, and engines compute the same prompts: most puts end here
    // or after the probe.
    if (known && same_bytes(known->facts, command.facts)) {
      ++operations_.counters().puts_present;
      finish(op, {});
      continue;
    }
    start_put(op);
  }
}

void PutOperations::fail_waiting(const Status& why) {
  for (const OpPtr& op : std::exchange(writes_, {})) finish(op, why);
  for (const OpPtr& op : std::exchange(probed_, {})) finish(op, why);
}

void PutOperations::ended(const OpPtr& op, const Status& status) {
  if (op->started && !op->probed) --looking_;
  if (op->record.writing != 0) tell_gates(op, status);
  if (op->record.writing != 0 && !status.ok())
    garbage_.leave_behind(op->record);  // mutation: abandoned-parts
}

// Reads the record first: another larderd, or an earlier run, may have put the same bytes.
void PutOperations::start_put(const OpPtr& op) {
  op->record = {op->command.key, op->command.facts, kPartBytes};
  std::uint32_t& since_s = op->record.facts.since_s;
  const std::uint64_t age_ms = since_s == 0 ? 0 : age_ms_of(since_s);
  if (since_s == 0) since_s = unix_s();
  if (options_.ttl_ms != 0 && age_ms >= options_.ttl_ms)
    return finish(op, {Code::kNotFound, "the chunk's time to live is over"});
  // The time to live runs from the first write of the chunk. A copy from another tier does not
  // live longer.
  op->ttl_ms = options_.ttl_ms - std::min(age_ms, options_.ttl_ms);
  const std::string key = record_key(options_.prefix, op->record.key);
  if (Status refused = backend_.refusal(key, Lane::kWrites); !refused.ok())
    return finish(op, refused);
  if (refuses(op, {key})) return;
  op->started = true;
  ++looking_;
  // Uses a read connection: on a write connection the read would wait for the writes before.
  const Status asked = commands_.read_record(
      op, op->record.key,
      [this, op](const Status& lost, const Reply& reply) { put_probed(op, lost, reply); });
  if (!asked.ok()) put_probed(op, asked, {});
}

void PutOperations::put_probed(const OpPtr& op, const Status& lost, const Reply& reply) {
  if (op->done) return;  // finish() has counted the put
  --looking_;
  op->probed = true;
  if (!lost.ok()) return finish(op, lost);
  const std::optional<Record> there = decode_record(op->record.key, reply.text);
  if (there && !op->cancelled && !garbage_.was_forgotten(*there) &&
      same_bytes(there->facts, op->record.facts)) {
    ++operations_.counters().puts_present;
    commands_.know(*there, commands_.left_ms(*there));
    return finish(op, {});
  }
  if (!health_.takes_puts()) return finish(op, health_.why());
  // A foreign value must go first: SET ... GET returns the old value, which could have any length
  // or type.
  if (GarbageQueue::is_garbage(reply, there))
    commands_.unlink({record_key(options_.prefix, op->record.key)}, 1, nullptr);
  probed_.push_back(op);
}

void PutOperations::send_probed() {
  while (!probed_.empty()) {
    const OpPtr op = probed_.front();
    if (!op->done && operations_.writing_bytes() >= options_.write_bytes_in_flight) return;
    probed_.pop_front();
    if (op->done) continue;
    if (op->cancelled)
      finish(op, {Code::kNotFound, "dropped meanwhile"});
    else
      send_parts(op);
  }
}

// Sends the parts. The record follows once all parts are stored, so that a record never names
// missing parts.
void PutOperations::send_parts(const OpPtr& op) {
  Record record = op->record;
  record.writing = draw_writing();
  if (record.writing == 0)
    return finish(op, {Code::kUnavailable, "the system has no random number"});
  if (Status why = commands_.refusal_of(record, Lane::kWrites); !why.ok())
    return finish(op, why);  // mutation: bad-node-puts
  const std::vector<std::string> keys = gate_keys(record);
  if (refuses(op, keys)) return;
  op->record = record;
  const std::uint64_t bytes = record.facts.slot_bytes();
  // A trial sends one part first, which tells whether the server takes long values. The other
  // parts wait for that answer.
  op->put = {bytes, std::min<std::uint64_t>(bytes, record.part_size(0)), clock_.now_ns()};
  operations_.moves(op, op->command.slot.size());
  if (const std::optional<std::size_t> tried = backend_.begin_chunk(keys, bytes, op->serial)) {
    op->trial = *tried == 0 ? 0 : *tried - 1;
    // In a Cluster only the server of the record has a trial, and all parts go before the record.
    if (*tried == 0 && keys.size() > 1) op->put.sent_bytes = bytes;
  }
  op->waiting = op->trial ? 1 : record.parts();
  if (op->trial) return send_part(op, *op->trial);
  for (std::uint32_t number = 0; number < record.parts(); ++number) send_part(op, number);
}

void PutOperations::send_part(const OpPtr& op, std::size_t number) {
  const auto part = static_cast<std::uint32_t>(number);
  const std::size_t bytes = op->record.part_size(part);
  const std::string name = part_key(options_.prefix, op->record, part),
                    ttl = std::to_string(op->ttl_ms);
  std::vector<std::string_view> after;
  if (op->ttl_ms != 0) after = {"PX", ttl};
  Request request;
  // The body is sent from the slot without a copy; only the words around it are formatted.
  request.around = format_around(std::array<std::string_view, 2>{"SET", name}, bytes, after);
  request.body = op->command.slot.subspan(op->record.part_offset(part), bytes);
  request.expect.types = "+";
  request.owner = op->serial;
  request.tells = Lane::kWrites;
  request.then = [this, op, number](const Status& lost, const Reply& reply) {
    part_stored(op, number, lost, reply);
  };
  if (Status refused = backend_.ask(Lane::kWrites, name, std::move(request)); !refused.ok()) {
    // No byte was sent, so the failure is no evidence about the size of the chunk.
    op->unsent = true;
    part_stored(op, number, refused, {});
  }
}

void PutOperations::part_stored(const OpPtr& op, std::size_t number, const Status& lost,
                                const Reply& reply) {
  if (op->done) return;
  const auto part = static_cast<std::uint32_t>(number);
  operations_.moves(op, op->moving - op->record.part_size(part));  // mutation: put-overlap
  note_failure(op, part_key(options_.prefix, op->record, part), lost, reply);
  if (--op->waiting != 0) return;
  const std::optional<std::size_t> tried = std::exchange(op->trial, std::nullopt);
  if (!tried || op->cancelled || !op->failed.ok() || op->record.parts() == 1)
    return parts_stored(op);
  op->waiting = op->record.parts() - 1;
  for (std::uint32_t other = 0; other < op->record.parts(); ++other)
    if (other != *tried) send_part(op, other);
}

void PutOperations::parts_stored(const OpPtr& op) {
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  if (!op->failed.ok()) return finish(op, op->failed);
  const std::string key = record_key(options_.prefix, op->record.key),
                    ttl = std::to_string(op->ttl_ms), record = encode_record(op->record);
  // GET returns the former record in the same step. A separate read could miss the record of
  // another larderd in between, and leave the parts behind.
  std::vector<std::string_view> words{"SET", key, record, "GET"};
  if (op->ttl_ms != 0) words.insert(words.end(), {"PX", ttl});
  Request request = commands_.request_of(
      op, words, "$",
      [this, op](const Status& lost, const Reply& reply) { record_stored(op, lost, reply); });
  // A deadline does not take the request back: the reply names the replaced record, whose parts
  // must go.
  request.owner = 0;  // mutation: late-put-owner
  operations_.begin_record(op);
  if (const Status asked = backend_.ask(Lane::kWrites, key, std::move(request)); !asked.ok())
    record_stored(op, asked, {});
}

void PutOperations::record_stored(const OpPtr& op, const Status& lost, const Reply& reply) {
  operations_.end_record(op);
  note_failure(op, record_key(options_.prefix, op->record.key), lost, reply);
  if (!op->failed.ok()) return finish(op, op->failed);
  // Even after a deadline: the former record is gone, and no other larderd knows the parts.
  if (const std::optional<Record> former = decode_record(op->record.key, reply.text))
    garbage_.leave_behind(*former);  // mutation: replaced-parts
  if (op->done) return;
  if (op->cancelled) return finish(op, {Code::kNotFound, "dropped meanwhile"});
  commands_.know(op->record, op->ttl_ms);
  finish(op, {});
}

// The keys whose servers the put needs; a single server has all of them.
std::vector<std::string> PutOperations::gate_keys(const Record& record) const {
  std::vector<std::string> keys{record_key(options_.prefix, record.key)};
  if (options_.mode != Mode::kCluster) return keys;
  for (std::uint32_t number = 0; number < record.parts(); ++number)
    keys.push_back(part_key(options_.prefix, record, number));
  return keys;
}

// Ends the put if a server refuses chunks of this size now: no byte is moved. Returns whether it
// did.
bool PutOperations::refuses(const OpPtr& op, const std::vector<std::string>& keys) {
  const Backend::ChunkRefusal refusal = backend_.chunk_refusal(keys, op->record.facts.slot_bytes());
  if (refusal.why.ok()) return false;
  op->again_ns = refusal.again_ns;
  finish(op, refusal.why);
  return true;
}

// Reports the end of a put to the gates. With several servers only the failed server hears of the
// failure.
void PutOperations::tell_gates(const OpPtr& op, const Status& status) {
  const std::vector<std::string> keys = gate_keys(op->record);
  // Only with a single server the late server is known. A shorter deadline says nothing about the
  // server.
  constexpr std::uint64_t kLateNs = 1'000'000'000;
  const bool late = op->failed_key.empty() && status.code() == Code::kDeadlineExceeded &&
                    options_.mode != Mode::kCluster &&
                    clock_.now_ns() >= op->put.begun_ns + kLateNs;
  if (status.ok())
    backend_.chunk_stored(keys, op->put);
  else if (op->refused)
    backend_.chunk_refused(op->failed_key, op->put, *op->refused);
  else if (late || (!op->failed_key.empty() && !op->unsent && !op->cancelled))
    backend_.chunk_lost(late ? keys.front() : op->failed_key, op->put, status);
  backend_.end_trials(op->serial);
}

// Notes the first failure; an error reply replaces a lost connection, because it says more.
void PutOperations::note_failure(const OpPtr& op, const std::string& key, const Status& lost,
                                 const Reply& reply) {
  const bool refused = lost.ok() && reply.kind == Reply::Kind::kError;
  if (ServerCommands::answered(op, lost, reply) ||
      (!op->failed_key.empty() && (!refused || op->refused)))
    return;
  op->failed_key = key;
  if (!refused) return;
  op->refused = meaning_of(reply.text);
  op->failed = status_of(*op->refused);
}

}  // namespace larder::remote
