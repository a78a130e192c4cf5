#include "sidecar/tiers/remote/chunks/namespace_drops.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "sidecar/tiers/remote/chunks/backend_log.h"

namespace larder::remote {

using tiers::Operation;

namespace {

constexpr std::uint64_t kLeastScanRetryNs = 100'000'000, kMostScanRetryNs = 5'000'000'000;
// A Redis serves one command at a time, so each step must be short. COUNT bounds the keys that one
// SCAN visits.
constexpr std::string_view kKeysAStep = "512";

// The cursor goes back to the server as a word of a command, so a hostile one must stay a number.
bool is_cursor(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void NamespaceDrops::begin(const OpPtr& op) {
  const bool all = op->command.operation == Operation::kClear;
  const protocol::NamespaceId& id = op->command.key.namespace_id;
  const auto meant = [&](const tiers::ChunkKey& key) { return all || key.namespace_id == id; };
  for (const OpPtr& other : operations_.all()) {
    const Operation operation = other->command.operation;
    const bool concerned =
        operation == Operation::kProbe ? std::ranges::any_of(other->command.keys, meant)
        : operation == Operation::kPut || operation == Operation::kGet ? meant(other->command.key)
                                                                       : false;
    if (!concerned) continue;
    // A cancelled get fails even if the server sends its bytes: the caller of the drop must not
    // see the chunk in a slot afterwards.
    other->cancelled = true;
    if (!other->started && operation != Operation::kProbe)
      operations_.finish(other, {Code::kNotFound, "dropped meanwhile"});
  }
  all ? known_.erase_all() : known_.erase_namespace(id);  // the residents hear of the drop now
  Drop drop;
  drop.op = op;
  drop.serial = op->serial;
  drops_.push_back(std::move(drop));
}

// A linear search: drops are rare, and kMost bounds their number.
const NamespaceDrops::Drop* NamespaceDrops::of(const protocol::NamespaceId& id) const {
  const auto found = std::ranges::find_if(drops_, [&](const Drop& drop) {
    return drop.op->command.operation == Operation::kClear ||
           drop.op->command.key.namespace_id == id;
  });
  return found == drops_.end() ? nullptr : &*found;
}

// Runs one step of a drop at a time. After each step follows a pause of the same length, because
// other clients use the server.
void NamespaceDrops::maintain() {
  const std::uint64_t now = clock_.now_ns();
  if (drops_.empty() || drops_.front().asked || now < next_scan_ns_ || !backend_.ready()) return;
  Drop& drop = drops_.front();
  // Puts from before the drop must end first: their records could arrive behind the scan.
  const auto in_the_way = [&](const OpPtr& op) {
    return op->started && op->command.operation == Operation::kPut && op->serial < drop.serial;
  };
  if (std::ranges::any_of(operations_.live(), in_the_way)) return;
  if (std::ranges::any_of(operations_.recording(), in_the_way))
    return;  // mutation: drop-after-record
  const bool all = drop.op->command.operation == Operation::kClear;
  const std::string pattern =
      all ? prefix_pattern(options_.prefix)
          : namespace_pattern(options_.prefix, drop.op->command.key.namespace_id);
  // Slots moved, or another master took over: keys may have moved from a waiting node to a scanned
  // one.
  if (std::exchange(drop.version, backend_.version()) != backend_.version()) {
    drop.cursor = "0";
    drop.master = 0;
  }
  drop.step_ns = now;
  drop.asked = true;
  // SCAN has no key, so the routing of keys does not apply. The masters are scanned by number, one
  // after the other.
  const Status asked = backend_.ask_master(
      drop.master, Lane::kWrites,
      commands_.request_of(
          nullptr, {"SCAN", drop.cursor, "MATCH", pattern, "COUNT", kKeysAStep}, "*",
          [this](const Status& lost, const Reply& reply) { scanned(lost, reply); }));
  if (!asked.ok()) drop_failed(asked);
}

std::uint64_t NamespaceDrops::next_ns(std::uint64_t now_ns) const {
  if (drops_.empty() || drops_.front().asked || !backend_.ready()) return UINT64_MAX;
  return std::max(next_scan_ns_, now_ns + 1'000'000);
}

void NamespaceDrops::scanned(const Status& lost, const Reply& reply) {
  if (!lost.ok()) return drop_failed(lost);
  if (reply.kind == Reply::Kind::kError) return drop_refused(reply);
  if (reply.elements.size() != 2 || !is_cursor(reply.elements[0].text))
    return drop_failed({Code::kDataLoss, "a malformed answer to SCAN"});
  std::vector<std::string> records, parts;
  for (const Reply& key : reply.elements[1].elements)
    // A hostile server may answer with other keys, and larderd must not unlink such keys.
    if (key.text.starts_with(options_.prefix + ":"))
      (is_record_key(options_.prefix, key.text) ? records : parts).push_back(key.text);
  // Records first: without the record no reader looks for the parts.
  drop_keys(records, [this, parts, cursor = reply.elements[0].text](std::uint64_t gone) {
    drops_.front().op->dropped += gone;
    drop_keys(parts, [this, cursor](std::uint64_t) { scan_on(cursor); });
  });
}

void NamespaceDrops::drop_keys(const std::vector<std::string>& keys,
                               const std::function<void(std::uint64_t gone)>& then) {
  if (keys.empty()) return then(0);
  commands_.unlink(keys, 1,
                   [this, then, most = keys.size()](const Status& lost, const Reply& reply) {
                     if (!lost.ok()) return drop_failed(lost);
                     if (reply.kind == Reply::Kind::kError) return drop_refused(reply);
                     then(std::min<std::uint64_t>(most, static_cast<std::uint64_t>(reply.integer)));
                   });
}

void NamespaceDrops::scan_on(const std::string& cursor) {
  Drop& drop = drops_.front();
  const std::uint64_t now = clock_.now_ns();
  drop.asked = false;
  drop.cursor = cursor;
  // The pause equals the step, so a drop takes at most half of the server's time.
  next_scan_ns_ = now + (now - drop.step_ns);
  if (cursor != "0" || drop.version != backend_.version()) return;
  if (++drop.master >= backend_.masters()) drop_done();
}

// A user without the right to SCAN or UNLINK can still put and get.
void NamespaceDrops::drop_refused(const Reply& reply) {
  const ErrorMeaning& meaning = meaning_of(reply.text);
  // Kept for the refusal of puts meanwhile, and for one line in the log for each reason.
  std::string& refused = drops_.front().refused;
  if (std::exchange(refused, meaning.text) != meaning.text)
    say(options_, "a drop waits", "a drop waits: " + refused);
  drop_failed(status_of(meaning));
}

// Tells the caller of the failure. The drop starts again once the server allows it.
void NamespaceDrops::drop_failed(const Status& why) {
  Drop& drop = drops_.front();
  drop.asked = false;
  drop.cursor = "0";
  drop.master = 0;
  drop.wait_ns = std::clamp(2 * drop.wait_ns, kLeastScanRetryNs, kMostScanRetryNs);
  next_scan_ns_ = clock_.now_ns() + drop.wait_ns;
  operations_.finish(drop.op, why);
}

void NamespaceDrops::drop_done() {
  const OpPtr op = drops_.front().op;
  drops_.pop_front();
  operations_.counters().chunks_dropped += op->dropped;
  // The namespace is shown only now: until the last key is gone a get could find a dropped chunk.
  op->command.operation == Operation::kClear ? known_.show_all()
                                             : known_.show(op->command.key.namespace_id);
  next_scan_ns_ = 0;
  operations_.finish(op, {});
}

}  // namespace larder::remote
