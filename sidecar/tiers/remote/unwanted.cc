// What is not wanted any more: chunks that were found bad, chunks that were evicted, parts that puts left behind. Each is looked at
// and unlinked one after the other, behind what is being written, until the server says that it is done.
#include <algorithm>
#include <utility>

#include "sidecar/tiers/remote/remote_engine.h"

namespace larder::remote {

using tiers::Operation;

namespace {

constexpr std::size_t kAtOnce = 64;
constexpr std::uint64_t kLeastWaitNs = 100'000'000, kMostWaitNs = 5'000'000'000;
constexpr std::string_view kRecordEnd = "104";
static_assert(kRecordBytes == 104);

bool wrong_type(const Reply& reply) {
  return reply.kind == Reply::Kind::kError && meaning_of(reply.text).code == "WRONGTYPE";
}

}  // namespace

// Found bad by an engine: not found here from now on, and soon by nobody.
void RemoteEngine::forget(const tiers::ChunkKey& key, std::uint64_t generation) {
  known_.erase(key, generation);
  if (unwanted_.size() >= kMostUnwanted) return;  // it is found bad once more
  unwanted_.push_back({Unwanted::What::kGeneration, {key, {}}, next_serial_++});
  unwanted_.back().record.facts.generation = generation;
}

void RemoteEngine::evict(const tiers::ChunkKey& key) {
  known_.erase(key);
  for (const OpPtr& op : std::vector<OpPtr>(live_.begin(), live_.end())) {
    const Operation operation = op->command.operation;
    if (operation == Operation::kLook && std::ranges::find(op->command.keys, key) != op->command.keys.end())
      op->evicted.push_back(key);
    if ((operation != Operation::kPut && operation != Operation::kGet) || op->command.key != key) continue;
    op->cancelled = true;
    if (!op->started) finish(op, {Code::kNotFound, "evicted meanwhile"});
  }
  unwanted_.push_back({Unwanted::What::kChunk, {key, {}}, next_serial_++});
}

// Parts of a put that was refused, cut off or too late. Nobody finds them, and without a time to live nothing else ends them.
void RemoteEngine::leave_behind(const Record& record) {
  if (unwanted_.size() < kMostUnwanted) unwanted_.push_back({Unwanted::What::kParts, record, next_serial_++});
}

bool RemoteEngine::was_forgotten(const Record& record) const {
  return std::ranges::any_of(unwanted_, [&](const Unwanted& one) {
    if (one.what == Unwanted::What::kParts || one.record.key != record.key) return false;
    return one.what == Unwanted::What::kChunk || one.record.facts.generation == record.facts.generation;
  });
}

// What a put must not be stored before: else it would go with it.
const RemoteEngine::Unwanted* RemoteEngine::unwanted_before(const Op& put) const {
  const auto found = std::ranges::find_if(unwanted_, [&](const Unwanted& one) {
    return one.what != Unwanted::What::kParts && one.serial < put.serial && one.record.key == put.command.key;
  });
  return found == unwanted_.end() ? nullptr : &*found;
}

// Whether a put must end first. The parts of a later one may be those that were left behind.
bool RemoteEngine::put_before(const Unwanted& one) const {
  return std::ranges::any_of(live_, [&](const OpPtr& op) {
    return op->command.operation == Operation::kPut && op->command.key == one.record.key &&
           (one.what == Unwanted::What::kParts || op->serial < one.serial);
  });
}

bool RemoteEngine::removing(std::uint64_t before_serial) const {
  return std::ranges::any_of(unwanted_, [&](const Unwanted& one) { return one.serial < before_serial && one.wait_ns == 0; });
}

void RemoteEngine::tend_unwanted() {
  next_unwanted_ns_ = UINT64_MAX;
  if (unwanted_.empty() || !backend_.ready() || health_.is(Health::kReads)) return;
  const std::uint64_t now = clock_.now_ns();
  std::size_t asked = 0;
  for (Unwanted& one : unwanted_) {
    if (one.next_ns > now) next_unwanted_ns_ = std::min(next_unwanted_ns_, one.next_ns);
    if (!one.asked && (one.next_ns > now || put_before(one))) continue;
    if (++asked > kAtOnce) return;
    if (one.asked) continue;
    const std::string key = record_key(options_.prefix, one.record.key);
    // Behind what is being written, so that an answer means that it is gone.
    one.asked = ask(Lane::kWrites, nullptr, {"GETRANGE", key, "0", kRecordEnd}, "$",
                    [this, serial = one.serial](const Status& lost, const Reply& reply) { unwanted_came(serial, lost, reply); })
                    .ok();
    if (one.asked) continue;
    one.next_ns = now + kLeastWaitNs;  // its server is away: the others have their turn
    next_unwanted_ns_ = std::min(next_unwanted_ns_, one.next_ns);
  }
}

void RemoteEngine::unwanted_came(std::uint64_t serial, const Status& lost, const Reply& reply) {
  const auto one = std::ranges::find(unwanted_, serial, &Unwanted::serial);
  one->asked = false;
  if (!lost.ok()) return;  // once more, on another connection
  if (reply.kind == Reply::Kind::kError && !wrong_type(reply)) return put_off(*one);
  const std::optional<Record> record = decode_record(one->record.key, reply.text);
  std::vector<std::string> keys;
  if (one->what == Unwanted::What::kParts) {
    if (put_before(*one)) return;
    if (!record || !same_parts(*record, one->record)) keys = part_keys(one->record);
  } else if (one->what == Unwanted::What::kChunk ? !reply.text.empty()
                                                 : record && record->facts.generation == one->record.facts.generation) {
    if (record) keys = part_keys(*record);
    keys.push_back(record_key(options_.prefix, one->record.key));
  }
  if (keys.empty()) return static_cast<void>(unwanted_.erase(one));
  one->asked = true;
  unlink(keys, [this, serial](const Status& gone, const Reply& unlinked) {
    const auto at = std::ranges::find(unwanted_, serial, &Unwanted::serial);
    at->asked = false;
    if (!gone.ok()) return;
    if (unlinked.kind == Reply::Kind::kError) return put_off(*at);
    counters_.records_corrupt += at->what == Unwanted::What::kGeneration ? 1 : 0;
    unwanted_.erase(at);
  });
}

// The server refuses it: no fault of puts and gets, which say so themselves where it is theirs, too.
void RemoteEngine::put_off(Unwanted& one) {
  one.wait_ns = std::clamp(2 * one.wait_ns, kLeastWaitNs, kMostWaitNs);
  one.next_ns = clock_.now_ns() + one.wait_ns;
}

}  // namespace larder::remote
