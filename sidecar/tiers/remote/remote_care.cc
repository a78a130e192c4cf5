// What goes wrong, and how it ends by itself; drops, forgetting, flushes.
#include <algorithm>
#include <charconv>
#include <utility>

#include "sidecar/base/log.h"
#include "sidecar/tiers/remote/remote_engine.h"

namespace larder::remote {

using tiers::Operation;

namespace {

constexpr std::uint64_t kScanRetryNs = 100'000'000;
constexpr std::size_t kMostForgotten = 4096, kForgottenAtOnce = 16;
constexpr std::string_view kRecordEnd = "104", kKeysAStep = "512";
static_assert(kRecordBytes == 104);

bool is_cursor(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void RemoteEngine::say(const std::string& text) const {
  const std::string where = options_.unix_path.empty() ? options_.host + ":" + std::to_string(options_.port) : options_.unix_path;
  base::log_info("remote tier at " + where + ": " + text);
}

// Another life of the server has other chunks. Where it does not tell its life, any time without it may have been its end.
void RemoteEngine::greeted(const std::string& run) {
  if (run_ != run || (run.empty() && health_.is(Health::kConnection))) known_.erase_all();
  run_ = run;
  denied_ = false;
  if (health_.clear(Health::kReads)) say("answers again");
}

void RemoteEngine::note_error(const ErrorMeaning& meaning, bool write) {
  if (meaning.trouble == Trouble::kNone) return;
  const bool login = meaning.trouble == Trouble::kDenied || meaning.trouble == Trouble::kWrongMode;
  denied_ = denied_ || login;
  const bool puts_alone = meaning.trouble == Trouble::kWrites || (login && write);
  if (!health_.set(puts_alone ? Health::kWrites : Health::kReads, std::string(meaning.text))) return;
  health_.retry(clock_.now_ns());  // the first time is over
  say(std::string(meaning.text));
  fail_waiting(true, !puts_alone);
}

void RemoteEngine::write_answered(const Reply& reply) {
  if (reply.kind == Reply::Kind::kError)
    note_error(meaning_of(reply.text), true);
  else if (health_.clear(Health::kWrites))
    say("takes writes again");
}

void RemoteEngine::tend_health() {
  if (links_.ready()) {
    if (health_.clear(Health::kConnection)) say("connected again");
  } else if (!links_.failure().ok()) {
    const std::string reason = "no connection to the server: " + links_.failure().to_string();
    if (health_.set(Health::kConnection, reason)) say(reason);
    fail_waiting(true, true);
    for (const OpPtr& op : std::vector<OpPtr>(live_.begin(), live_.end()))
      if (op->command.operation == Operation::kFlush) finish(op, {Code::kUnavailable, reason});
    return;
  }
  if ((!health_.is(Health::kReads) && !health_.is(Health::kWrites)) || probing_ || !links_.ready()) return;
  if (!health_.retry(clock_.now_ns())) return;
  if (denied_) return links_.restart({Code::kPermissionDenied, health_.state().reason});
  health_.is(Health::kReads) ? probe_reads() : probe_writes();
}

void RemoteEngine::probe_reads() {
  const std::string key = probe_key(options_.prefix);
  probing_ = ask(Lane::kReads, nullptr, {"GETRANGE", key, "0", "0"}, "$", [this](const Status& lost, const Reply& reply) {
               probing_ = false;
               if (!lost.ok()) return;
               if (reply.kind == Reply::Kind::kError)
                 note_error(meaning_of(reply.text), false);
               else if (health_.clear(Health::kReads))
                 say("answers again");
             }).ok();
}

void RemoteEngine::probe_writes() {
  const std::string key = probe_key(options_.prefix);
  probing_ = ask(Lane::kWrites, nullptr, {"SET", key, "1", "PX", "1000"}, "+", [this](const Status& lost, const Reply& reply) {
               probing_ = false;
               if (lost.ok()) write_answered(reply);
             }).ok();
}

void RemoteEngine::drop(const OpPtr& op) {
  const bool all = op->command.operation == Operation::kClear;
  const protocol::NamespaceId& id = op->command.key.namespace_id;
  const auto meant = [&](const tiers::ChunkKey& key) { return all || key.namespace_id == id; };
  for (const OpPtr& other : std::vector<OpPtr>(live_.begin(), live_.end())) {
    const Operation operation = other->command.operation;
    const bool concerned = operation == Operation::kLook ? std::ranges::any_of(other->command.keys, meant)
                           : operation == Operation::kPut || operation == Operation::kGet ? meant(other->command.key)
                                                                                          : false;
    if (!concerned) continue;
    other->cancelled = true;
    if (!other->started && operation != Operation::kLook) finish(other, {Code::kNotFound, "dropped meanwhile"});
  }
  Drop drop;
  drop.op = op;
  drop.serial = op->serial;
  drops_.push_back(std::move(drop));
}

bool RemoteEngine::dropping(const protocol::NamespaceId& id) const {
  return std::ranges::any_of(drops_, [&](const Drop& drop) {
    return drop.op->command.operation == Operation::kClear || drop.op->command.key.namespace_id == id;
  });
}

// One step at a time, each followed by a pause as long as it took: others use the server, too.
void RemoteEngine::tend_drops() {
  const std::uint64_t now = clock_.now_ns();
  if (drops_.empty() || drops_.front().asked || now < next_scan_ns_ || !links_.ready()) return;
  Drop& drop = drops_.front();
  // What was being written when it was asked for may come in behind our back.
  const auto in_the_way = [&](const OpPtr& op) {
    return op->started && op->command.operation == Operation::kPut && op->serial < drop.serial;
  };
  if (std::ranges::any_of(live_, in_the_way)) return;
  const bool all = drop.op->command.operation == Operation::kClear;
  const std::string pattern =
      all ? prefix_pattern(options_.prefix) : namespace_pattern(options_.prefix, drop.op->command.key.namespace_id);
  drop.step_ns = now;
  drop.asked = ask(Lane::kWrites, nullptr, {"SCAN", drop.cursor, "MATCH", pattern, "COUNT", kKeysAStep}, "*",
                   [this](const Status& lost, const Reply& reply) { scanned(lost, reply); })
                   .ok();
}

void RemoteEngine::scanned(const Status& lost, const Reply& reply) {
  if (!lost.ok()) return drop_failed(lost);
  if (reply.kind == Reply::Kind::kError) {
    note_error(meaning_of(reply.text), true);
    return drop_failed(status_of(meaning_of(reply.text)));
  }
  if (reply.elements.size() != 2 || !is_cursor(reply.elements[0].text))
    return drop_failed({Code::kDataLoss, "an answer to SCAN that is none"});
  std::vector<std::string_view> words{"UNLINK"};
  for (const Reply& key : reply.elements[1].elements)
    if (key.text.starts_with(options_.prefix + ":")) words.push_back(key.text);
  const std::string cursor = reply.elements[0].text;
  if (words.size() == 1) return scan_on(cursor);
  const Status asked = ask(Lane::kWrites, nullptr, words, ":", [this, cursor](const Status& gone, const Reply& unlinked) {
    if (!gone.ok()) return drop_failed(gone);
    if (unlinked.kind == Reply::Kind::kError) {
      note_error(meaning_of(unlinked.text), true);
      return drop_failed(status_of(meaning_of(unlinked.text)));
    }
    scan_on(cursor);
  });
  if (!asked.ok()) drop_failed(asked);
}

void RemoteEngine::scan_on(const std::string& cursor) {
  Drop& drop = drops_.front();
  const std::uint64_t now = clock_.now_ns();
  drop.asked = false;
  drop.cursor = cursor;
  next_scan_ns_ = now + (now - drop.step_ns);
  if (cursor == "0") drop_done();
}

// Whoever asked is told; it is done all the same, from its start, once the server lets it.
void RemoteEngine::drop_failed(const Status& why) {
  Drop& drop = drops_.front();
  drop.asked = false;
  drop.cursor = "0";
  next_scan_ns_ = clock_.now_ns() + kScanRetryNs;
  finish(drop.op, why);
}

void RemoteEngine::drop_done() {
  const OpPtr op = drops_.front().op;
  drops_.pop_front();
  if (op->command.operation == Operation::kClear) {
    counters_.chunks_dropped += known_.erase_all();
    known_.show_all();
  } else {
    counters_.chunks_dropped += known_.erase_namespace(op->command.key.namespace_id);
    known_.show(op->command.key.namespace_id);
  }
  next_scan_ns_ = 0;
  finish(op, {});
}

// Found bad by an engine: not found here from now on, and soon by nobody.
void RemoteEngine::forget(const tiers::ChunkKey& key, std::uint64_t generation) {
  known_.erase(key, generation);
  if (forgotten_.size() >= kMostForgotten) return;  // it is found bad once more
  forgotten_.push_back({key, generation, next_serial_++, false});
}

bool RemoteEngine::was_forgotten(const Record& record) const {
  return std::ranges::any_of(forgotten_, [&](const Forgotten& forgotten) {
    return forgotten.generation == record.facts.generation && forgotten.key == record.key;
  });
}

void RemoteEngine::tend_forgotten() {
  if (!links_.ready() || health_.is(Health::kReads)) return;
  std::size_t asked = 0;
  for (Forgotten& one : forgotten_) {
    if (++asked > kForgottenAtOnce) return;
    if (one.asked) continue;
    const std::string key = record_key(options_.prefix, one.key);
    const auto end = [this, serial = one.serial, of = one.key, generation = one.generation](const Status& lost,
                                                                                            const Reply& reply) {
      const auto at = std::ranges::find(forgotten_, serial, &Forgotten::serial);
      if (at == forgotten_.end()) return;
      at->asked = false;
      if (!lost.ok()) return;  // once more, on another connection
      const std::optional<Record> record = decode_record(of, reply.text);
      if (record && record->facts.generation == generation) {
        ++counters_.records_corrupt;
        std::vector<std::string> keys = part_keys(*record);
        keys.push_back(record_key(options_.prefix, of));
        unlink(keys);
      }
      forgotten_.erase(at);
    };
    // Behind what is being written, so that an answer means that it is gone.
    one.asked = ask(Lane::kWrites, nullptr, {"GETRANGE", key, "0", kRecordEnd}, "$", end).ok();
  }
}

void RemoteEngine::tend_flushes() {
  const auto is_flush = [](const OpPtr& op) { return op->command.operation == Operation::kFlush; };
  if (std::ranges::none_of(live_, is_flush)) return;
  for (const OpPtr& flush : std::vector<OpPtr>(live_.begin(), live_.end())) {
    if (!is_flush(flush)) continue;
    const auto before = [&](const OpPtr& op) { return op->command.operation == Operation::kPut && op->serial < flush->serial; };
    const bool puts = std::ranges::any_of(live_, before);
    const bool forgets = std::ranges::any_of(forgotten_, [&](const Forgotten& one) { return one.serial < flush->serial; });
    if (!puts && !forgets) finish(flush, {});
  }
}

}  // namespace larder::remote
