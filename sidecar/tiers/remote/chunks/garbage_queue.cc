#include "sidecar/tiers/remote/chunks/garbage_queue.h"

#include <algorithm>
#include <utility>

#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/links.h"

namespace larder::remote {

using tiers::Operation;

namespace {

// Removals share the write connections with puts. More commands at once would delay the puts.
constexpr std::size_t kAtOnce = 64;
constexpr std::uint64_t kLeastWaitNs = 100'000'000, kMostWaitNs = 5'000'000'000;

bool wrong_type(const Reply& reply) {
  return reply.kind == Reply::Kind::kError && meaning_of(reply.text).code == "WRONGTYPE";
}

}  // namespace

bool GarbageQueue::is_garbage(const Reply& there, const std::optional<Record>& record) {
  return wrong_type(there) || (there.kind == Reply::Kind::kBulk && !there.text.empty() && !record);
}

void GarbageQueue::forget(const tiers::ChunkKey& key, std::uint64_t generation) {
  // Hidden here at once. The removal from the server needs a round trip or more, and until then
  // was_forgotten() rejects the record.
  known_.erase(key, generation);
  Record bad{key, {}};
  bad.facts.generation = generation;
  remove(Garbage::What::kGeneration, bad);
}

void GarbageQueue::remove(Garbage::What what, const Record& record) {
  const auto same = [&](const Garbage& one) { return one.what == what && one.record == record; };
  // A full queue costs a second look at a bad chunk, or parts that stay until TTL or eviction.
  // Memory would be worse.
  if (garbage_.size() >= kMost) return;
  // Several engines miss the same part at the same moment. Each would otherwise add a removal.
  if (what == Garbage::What::kWriting && std::ranges::any_of(garbage_, same)) return;
  garbage_.push_back({what, record, operations_.take_serial()});
}

void GarbageQueue::evict(const tiers::ChunkKey& key) {
  known_.erase(key);
  for (const OpPtr& op : operations_.all()) {
    const Operation operation = op->command.operation;
    // A probe in flight may bring the record from before the eviction, so the probe must
    // ignore the key.
    if (operation == Operation::kProbe &&
        std::ranges::find(op->command.keys, key) != op->command.keys.end())
      op->evicted.push_back(key);
    if ((operation != Operation::kPut && operation != Operation::kGet) || op->command.key != key)
      continue;
    op->cancelled = true;
    if (!op->started) operations_.finish(op, {Code::kNotFound, "evicted meanwhile"});
  }
  // The serial orders the removal behind the puts before it, and before all later puts of the key.
  // OperationTable is the only source of serials.
  garbage_.push_back({Garbage::What::kChunk, {key, {}}, operations_.take_serial()});
}

void GarbageQueue::leave_behind(const Record& record) {
  remove(Garbage::What::kParts, record);
}

bool GarbageQueue::was_forgotten(const Record& record) const {
  return std::ranges::any_of(garbage_, [&](const Garbage& one) {
    // Leftover parts say nothing about a record: the record of their key belongs to another put.
    return one.what != Garbage::What::kParts && one.record.key == record.key &&
           is_meant(one, record);
  });
}

// Whether the record is the one to remove.
bool GarbageQueue::is_meant(const Garbage& one, const Record& record) {
  switch (one.what) {
    case Garbage::What::kGeneration: return record.facts.generation == one.record.facts.generation;
    case Garbage::What::kChunk: return true;
    // A valid record has replaced the foreign value in the meantime, and stays.
    case Garbage::What::kGarbage: return false;
    default: return record.writing == one.record.writing;
  }
}

const GarbageQueue::Garbage* GarbageQueue::before(const Op& put) const {
  const auto found = std::ranges::find_if(garbage_, [&](const Garbage& one) {
    return one.what != Garbage::What::kParts && one.serial < put.serial &&
           one.record.key == put.command.key;
  });
  return found == garbage_.end() ? nullptr : &*found;
}

// Whether an earlier put must end first. A put that was given up with its record in flight counts
// until the reply. Leftover parts wait only for their own put, because no other put writes their
// keys.
bool GarbageQueue::put_before(const Garbage& one) const {
  const bool parts = one.what == Garbage::What::kParts;
  const auto before = [&](const OpPtr& op) {
    return op->command.operation == Operation::kPut && op->command.key == one.record.key &&
           op->serial < one.serial;
  };
  if (!parts && std::ranges::any_of(operations_.live(), before)) return true;
  return std::ranges::any_of(operations_.recording(), [&](const OpPtr& op) {
    return before(op) &&
           (!parts || op->record.writing == one.record.writing);  // mutation: late-record-first
  });
}

bool GarbageQueue::removing(std::uint64_t before_serial) const {
  return std::ranges::any_of(
      garbage_, [&](const Garbage& one) { return one.serial < before_serial && one.waited_for(); });
}

void GarbageQueue::maintain(bool reads_fail) {
  next_attempt_ns_ = UINT64_MAX;
  if (garbage_.empty() || !backend_.ready() || reads_fail) return;
  const std::uint64_t now = clock_.now_ns();
  std::size_t asked = 0;
  for (Garbage& one : garbage_) {
    // Computed in the same pass, so the thread sleeps exactly until the next attempt.
    if (one.next_ns > now) next_attempt_ns_ = std::min(next_attempt_ns_, one.next_ns);
    if (!one.asked && (one.next_ns > now || put_before(one))) continue;
    if (++asked > kAtOnce) return;
    if (one.asked) continue;
    const std::string key = record_key(options_.prefix, one.record.key);
    // The removal reads first: another larderd may have stored a good chunk under
    // the key since the fault was seen.
    one.asked = commands_
                    .ask(Lane::kWrites, nullptr, {"GETRANGE", key, "0", kRecordEnd}, "$",
                         [this, serial = one.serial](const Status& lost, const Reply& reply) {
                           garbage_came(serial, lost, reply);
                         })
                    .ok();
    one.away = !one.asked;
    if (one.asked) continue;
    one.next_ns = now + kLeastWaitNs;  // other removals go first
    next_attempt_ns_ = std::min(next_attempt_ns_, one.next_ns);
  }
}

void GarbageQueue::garbage_came(std::uint64_t serial, const Status& lost, const Reply& reply) {
  const auto one = std::ranges::find(garbage_, serial, &Garbage::serial);
  one->asked = false;
  // The entry stays in the queue, and maintain() begins again with the read.
  if (!lost.ok()) return;  // retried on another connection
  if (reply.kind == Reply::Kind::kError && !wrong_type(reply)) return put_off(*one);
  const std::optional<Record> record = decode_record(one->record.key, reply.text);
  const bool meant = record && is_meant(*one, *record);
  switch (one->what) {
    case Garbage::What::kParts:
      // The put was reported as failed, but its record reached the server: then the parts belong
      // to a complete chunk.
      return meant ? unlink_garbage(*one, {}) : unlink_garbage(*one, part_keys(*one));
    case Garbage::What::kWriting:
      return meant ? take_record(*one) : unlink_garbage(*one, part_keys(*one));
    default: break;
  }
  if (meant) {
    operations_.counters().records_corrupt += one->what == Garbage::What::kGeneration ? 1 : 0;
    // From here on the entry names one writing. A repeated attempt cannot hit a later record of
    // the same generation.
    one->what = Garbage::What::kWriting;
    one->record = *record;
    return take_record(*one);
  }
  const bool garbage = one->what != Garbage::What::kGeneration && is_garbage(reply, record);
  unlink_garbage(*one, garbage ? std::vector{record_key(options_.prefix, one->record.key)}
                               : std::vector<std::string>());
}

// GETDEL returns the removed record: another larderd may have put a new record since the read,
// which is then put back.
void GarbageQueue::take_record(Garbage& one) {
  const std::string key = record_key(options_.prefix, one.record.key);
  one.asked = commands_
                  .ask(Lane::kWrites, nullptr, {"GETDEL", key}, "$",
                       [this, serial = one.serial](const Status& lost, const Reply& reply) {
                         record_taken(serial, lost, reply);
                       })
                  .ok();
}

void GarbageQueue::record_taken(std::uint64_t serial, const Status& lost, const Reply& reply) {
  const auto one = std::ranges::find(garbage_, serial, &Garbage::serial);
  one->asked = false;
  if (!lost.ok()) return;  // the record is read again
  if (reply.kind == Reply::Kind::kError && !wrong_type(reply)) return put_off(*one);
  const std::optional<Record> taken = decode_record(one->record.key, reply.text);
  // Between the read and GETDEL another larderd stored a new record. Readers miss the chunk for
  // one round trip.
  if (taken && !is_meant(*one, *taken)) give_back(*taken);  // mutation: remove-gives-back
  unlink_garbage(*one, part_keys(*one));
}

void GarbageQueue::give_back(const Record& record) {
  const std::string key = record_key(options_.prefix, record.key), bytes = encode_record(record),
                    ttl = std::to_string(std::max<std::uint64_t>(commands_.left_ms(record), 1));
  // NX: a third larderd may have stored the chunk once more. Its record must win over the returned
  // one.
  std::vector<std::string_view> words{"SET", key, bytes, "NX"};  // mutation: give-back-yields
  if (options_.ttl_ms != 0) words.insert(words.end(), {"PX", ttl});
  const auto given = [this, record](const Status& lost, const Reply& reply) {
    if (!lost.ok() || reply.kind != Reply::Kind::kStatus)
      leave_behind(record);  // its parts, unless the record exists after all
  };
  if (const Status asked = commands_.ask(Lane::kWrites, nullptr, words, "+$", given); !asked.ok())
    leave_behind(record);
}

// The last step of a removal. Without keys the removal is done.
void GarbageQueue::unlink_garbage(Garbage& one, const std::vector<std::string>& keys) {
  const std::uint64_t serial = one.serial;
  if (keys.empty())
    return static_cast<void>(
        std::erase_if(garbage_, [=](const Garbage& each) { return each.serial == serial; }));
  one.asked = true;
  // A part in flight may be on any write connection.
  commands_.unlink(
      keys, Links::writers(options_.connections),  // mutation: unlink-all-writers
      [this, serial](const Status& gone, const Reply& unlinked) {
        // By serial and not by pointer: the entry may move to another place in the meantime.
        const auto at = std::ranges::find(garbage_, serial, &Garbage::serial);
        at->asked = false;
        if (!gone.ok()) {  // the server of a part may be away, and the server of the record not
          at->away = true;
          at->next_ns = clock_.now_ns() + kLeastWaitNs;
          return;
        }
        if (unlinked.kind == Reply::Kind::kError) return put_off(*at);
        garbage_.erase(at);
      });
}

std::vector<std::string> GarbageQueue::part_keys(const Garbage& one) const {
  std::vector<std::string> keys;
  for (std::uint32_t number = 0; number < one.record.parts(); ++number)
    keys.push_back(part_key(options_.prefix, one.record, number));
  return keys;
}

// The server refuses the removal. That is no fault of puts and gets, which report their own errors.
void GarbageQueue::put_off(Garbage& one) {
  one.wait_ns = std::clamp(2 * one.wait_ns, kLeastWaitNs, kMostWaitNs);
  one.next_ns = clock_.now_ns() + one.wait_ns;
}

}  // namespace larder::remote
