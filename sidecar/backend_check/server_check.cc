#include "sidecar/backend_check/server_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <utility>

#include "sidecar/backend_check/dialogue.h"
#include "sidecar/backend_check/server_info.h"
#include "sidecar/base/time_units.h"
#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/resp/handshake.h"

namespace larder::backend_check {
namespace {

using Step = ServerFacts::Step;
using Words = std::vector<std::string_view>;

using base::kNsPerMs;
// Longer than larderd's own limits, so a slow server gets a finding with its time and not "no
// answer".
constexpr std::uint64_t kConnectMs = 3000, kAnswerMs = 3000, kValuesMs = 5000;
constexpr std::uint64_t kPingsMs = 500, kRateMs = 400;  // longest measurement
// The number of rounds bounds the bytes: 16 rounds of 4 values of kPartBytes (2 MiB) are 128 MiB.
constexpr std::size_t kMostPings = 1000, kMostRounds = 16;
constexpr std::size_t kValues = 4;  // values of one round, all in flight at once
// The keys of a check that dies expire on their own.
constexpr std::string_view kLifeMs = "20000";

class Check {
 public:
  Check(const remote::RemoteOptions& options, const ServerToCheck& server, const base::Clock& clock)
      : options_(options), server_(server), clock_(clock), stop_(server.stop) {
    // Several larderctl and operators may check one server at once: random names keep the keys
    // apart.
    std::random_device device;
    std::mt19937_64 random((std::uint64_t{device()} << 32) | device());
    const std::string name = options.prefix + ":check:" + std::to_string(random()) + ":";
    // A node of a Cluster answers MOVED for keys of other nodes, so keys are tried until four
    // belong to the node's slots.
    for (std::size_t number = 0; keys_.size() < kValues; ++number)
      if (std::string key = name + std::to_string(number); server.slots.empty() || serves(key))
        keys_.push_back(std::move(key));
    // Random bytes: a server or proxy that compresses values would look faster with zeros.
    value_.resize(remote::kPartBytes);
    for (std::size_t at = 0; at + 8 <= value_.size(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(value_.data() + at, &word, 8);
    }
  }

  ServerFacts run() {
    const std::array<std::pair<Step, Status (Check::*)()>, 5> steps{
        {{Step::kConnect, &Check::connect},
         {Step::kGreet, &Check::greet},
         {Step::kDatabase, &Check::describe},
         {Step::kMode, &Check::check_mode},
         {Step::kUse, &Check::use}}};
    for (const auto& [step, take] : steps) {
      facts_.failure =
          server_.stop.stop_requested() ? Status(Code::kUnavailable, "stopping") : (this->*take)();
      // Set before the failure is looked at: facts of later steps are then known to be unknown.
      facts_.ended = step;
      if (!facts_.failure.ok()) return std::move(facts_);
      if (step == Step::kMode && !of_use()) break;
    }
    facts_.ended = Step::kNone;
    return std::move(facts_);
  }

 private:
  std::uint64_t deadline(std::uint64_t ms) const {
    // Each answer has its own limit, and all of them together the limit of the check.
    return std::min(clock_.now_ns() + ms * kNsPerMs, server_.end_ns);
  }
  bool serves(std::string_view key) const {
    const std::uint16_t slot = remote::slot_of(key);
    return std::ranges::any_of(server_.slots, [slot](const remote::SlotRange& range) {
      return range.first <= slot && slot <= range.last;
    });
  }
  // Host names of replies reach the user's screen. A hostile server could put the password there.
  bool echoes(const std::string& host) const {
    return !password_.empty() && host.find(password_) != std::string::npos;
  }
  // A Sentinel has no keys, and a node without slots here is asked for the map only.
  bool of_use() const {
    return server_.kind != remote::Kind::kSentinel &&
           (server_.kind != remote::Kind::kNode || !server_.slots.empty());
  }
  Result<remote::Reply> ask(const Words& words, std::string_view types) {
    return dialogue_->ask(words, types, deadline(kAnswerMs));
  }
  static bool is_error(const remote::Reply& reply) {
    return reply.kind == remote::Reply::Kind::kError;
  }

  Status connect();
  Status greet();
  Status describe();
  Status check_mode();
  Status ask_sentinel();
  Status ask_map();
  Status use();
  Status try_commands();
  Status measure_pings();
  Status measure_sets();
  Status measure_gets();
  Status remove_values();

  const remote::RemoteOptions& options_;
  const ServerToCheck& server_;
  const base::Clock& clock_;
  const base::StopFd stop_;
  std::uint64_t began_ns_ = 0;
  std::unique_ptr<Dialogue> dialogue_;
  std::string password_;
  ServerFacts facts_;
  std::vector<std::string> keys_;
  std::vector<std::byte> value_;
};

Status Check::connect() {
  began_ns_ = clock_.now_ns();
  Result<std::unique_ptr<Dialogue>> dialogue =
      Dialogue::open(options_.tls, server_.endpoint, {clock_, stop_}, deadline(kConnectMs));
  if (!dialogue.ok()) return dialogue.status();
  dialogue_ = *std::move(dialogue);
  facts_.local = dialogue_->local();
  return {};
}

Status Check::greet() {
  // Sentinels have passwords and users of their own.
  const bool sentinel = server_.kind == remote::Kind::kSentinel;
  const std::string& file = sentinel ? options_.sentinel_password_file : options_.password_file;
  const std::string& named = sentinel ? options_.sentinel_user : options_.user;
  Result<std::string> password =
      file.empty()
          ? std::string()
          : remote::read_password(
                sentinel ? "backend.sentinel_password_file" : "backend.password_file", file);
  if (!password.ok()) return password.status();
  password_ = *password;
  // AUTH with a user needs a name; Redis calls the user of a plain `requirepass` "default".
  const std::string user = named.empty() ? "default" : named;
  // One command for AUTH, name and facts, as the backend tier sends it: a missing right shows here
  // as it would there.
  Words words{"HELLO", "2"};
  if (!password->empty()) words.insert(words.end(), {"AUTH", user, *password});
  words.insert(words.end(), {"SETNAME", "larder-check"});
  const Result<remote::Reply> hello = ask(words, "*");
  if (!hello.ok()) return hello.status();
  if (Status refusal = remote::refusal_of(*hello); !refusal.ok()) return refusal;
  facts_.connect_ns = clock_.now_ns() - began_ns_;
  take_hello(*hello, facts_);
  return {};
}

// A refused or unknown command leaves its facts unknown and is no failure: managed servers often
// forbid CONFIG. A failed SELECT is reported last,
// so that the number of databases is known by then.
Status Check::describe() {
  const std::string database = std::to_string(options_.database);
  const bool select = options_.database != 0 && facts_.mode != "sentinel";
  // Sent even though its error is reported last: later commands would otherwise run in database 0.
  const Result<remote::Reply> selected = select ? ask({"SELECT", database}, "+") : remote::Reply();
  if (!selected.ok()) return selected.status();
  for (const std::string_view section : {"server", "memory", "persistence", "replication"}) {
    const Result<remote::Reply> info = ask({"INFO", section}, "$");
    if (!info.ok()) return info.status();
    if (!is_error(*info)) take_info(info->text, facts_);
  }
  if (facts_.mode == "sentinel") return {};
  for (const std::string_view name :
       {"save", "io-threads", "databases", "cluster-require-full-coverage"}) {
    const Result<remote::Reply> config = ask({"CONFIG", "GET", name}, "*");
    if (!config.ok()) return config.status();
    take_config(*config, facts_);
  }
  if (!is_error(*selected)) return {};
  return {Code::kFailedPrecondition, "the server refuses to select database " + database};
}

Status Check::check_mode() {
  if (Status mismatch = remote::role_mismatch(server_.kind, facts_.mode, facts_.role);
      !mismatch.ok())
    return mismatch;
  if (server_.kind == remote::Kind::kSentinel) return ask_sentinel();
  return server_.kind == remote::Kind::kNode && server_.slots.empty() ? ask_map() : Status();
}

Status Check::ask_sentinel() {
  const Result<remote::Reply> named =
      ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.sentinel_master}, "*");
  if (!named.ok()) return named.status();
  if (is_error(*named)) return remote::status_of(remote::meaning_of(named->text));
  const std::optional<remote::Endpoint> master = remote::parse_named(*named);
  if (!master)
    return {Code::kFailedPrecondition, "the Sentinel knows no master " + options_.sentinel_master};
  if (echoes(master->host)) return {Code::kDataLoss, "the server sends our password back"};
  facts_.named = master;
  // Only for the quorum and the number of replicas. A missing right is no failure: larderd does not
  // use the command.
  const Result<remote::Reply> masters = ask({"SENTINEL", "MASTERS"}, "*");
  if (masters.ok() && !is_error(*masters)) take_masters(*masters, options_.sentinel_master, facts_);
  return masters.status();
}

Status Check::ask_map() {
  const Result<remote::Reply> map = ask({"CLUSTER", "SLOTS"}, "*");
  if (!map.ok()) return map.status();
  if (is_error(*map)) return remote::status_of(remote::meaning_of(map->text));
  facts_.map = remote::parse_slots(*map, server_.endpoint.host);
  for (const remote::SlotRange& range : facts_.map.value_or(std::vector<remote::SlotRange>()))
    if (echoes(range.master.host)) return {Code::kDataLoss, "the server sends our password back"};
  if (!facts_.map) return {Code::kDataLoss, "the answer of the node to CLUSTER SLOTS is no map"};
  return facts_.map->empty() ? Status(Code::kUnavailable, "the Cluster serves no keys yet")
                             : Status();
}

Status Check::use() {
  if (Status status = try_commands(); !status.ok()) return status;
  const auto may = [this](std::string_view command) {
    return std::ranges::find(facts_.missing, command) == facts_.missing.end();
  };
  // Measurements only with commands that the user may run.
  if (may("PING"))
    if (Status status = measure_pings(); !status.ok()) return status;
  if (server_.rates && facts_.writes.ok() && may("SET") && may("GET") && may("UNLINK")) {
    if (Status status = measure_sets(); !status.ok()) return status;
    if (Status status = measure_gets(); !status.ok()) return status;
  }
  // Also after an unfinished measurement: 8 MiB would otherwise stay for 20 s.
  return remove_values();
}

// Runs each command of the tier once, on absent keys. ASKING affects only the command behind it,
// and a master ignores READONLY, so both do no harm to the measurements that follow.
Status Check::try_commands() {
  const std::string& key = keys_[0];
  const std::string pattern = options_.prefix + ":check:*";
  std::vector<std::pair<Words, std::string_view>> commands{
      {{"PING"}, "+"},
      {{"GETRANGE", key, "0", "0"}, "$"},
      {{"GET", key}, "$"},
      // Each written key has a lifetime of 20 s, at most as long as the whole check may take. A
      // check that dies leaves nothing behind.
      {{"SET", key, "1", "PX", kLifeMs}, "+"},
      {{"GETDEL", key}, "$"},
      {{"UNLINK", key}, ":"},
      {{"SCAN", "0", "MATCH", pattern, "COUNT", "10"}, "*"}};
  if (server_.kind == remote::Kind::kNode) commands.push_back({{"ASKING"}, "+"});
  if (server_.kind == remote::Kind::kNode && options_.read_replicas)
    commands.push_back({{"READONLY"}, "+"});  // a master accepts READONLY, too
  for (const auto& [words, types] : commands) {
    const Result<remote::Reply> reply = ask(words, types);
    if (!reply.ok()) return reply.status();
    if (!is_error(*reply)) continue;
    const remote::ErrorMeaning& meaning = remote::meaning_of(reply->text);
    if (meaning.code == "NOPERM" || reply->text.starts_with("ERR unknown command"))
      facts_.missing.emplace_back(words[0]);
    else if (words[0] == "SET")
      facts_.writes = remote::status_of(meaning);
    else if (meaning.trouble != remote::Trouble::kWrites)  // SET reports refused writes, too
      return remote::status_of(meaning);
  }
  return {};
}

// One PING at a time: the round trip is the latency that a probe of the tier sees.
Status Check::measure_pings() {
  std::vector<std::uint64_t> took_ns;
  // The time bounds the number of samples on a slow network, and kMostPings on a fast one.
  for (const std::uint64_t end_ns = deadline(kPingsMs / server_.share);
       took_ns.size() < kMostPings && clock_.now_ns() < end_ns;) {
    const std::uint64_t began_ns = clock_.now_ns();
    const Result<remote::Reply> pong = ask({"PING"}, "+");
    if (!pong.ok()) return pong.status();
    took_ns.push_back(clock_.now_ns() - began_ns);
  }
  if (took_ns.empty()) return {};
  std::ranges::sort(took_ns);
  facts_.pings = {took_ns.size(), took_ns[took_ns.size() / 2], took_ns[took_ns.size() * 99 / 100]};
  return {};
}

std::uint64_t rate(std::uint64_t bytes, std::uint64_t took_ns) {
  return took_ns == 0 ? 0
                      : static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 /
                                                   static_cast<double>(took_ns));
}

Status Check::measure_sets() {
  std::uint64_t bytes = 0, took_ns = 0;
  for (std::size_t round = 0; round < kMostRounds && took_ns < kRateMs * kNsPerMs / server_.share;
       ++round) {
    // Four values in flight, so the rate shows the bandwidth and not the latency.
    std::vector<remote::Request> requests(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      requests[i].around =
          remote::format_around(Words{"SET", keys_[i]}, value_.size(), Words{"PX", kLifeMs});
      requests[i].body = value_;
      requests[i].expect.types = "+";
      requests[i].then = [this](const Status& lost, const remote::Reply& reply) {
        if (lost.ok() && is_error(reply) && facts_.writes.ok())
          facts_.writes = remote::status_of(remote::meaning_of(reply.text));
      };
    }
    const std::uint64_t began_ns = clock_.now_ns();
    if (Status status = dialogue_->run(std::move(requests), deadline(kValuesMs)); !status.ok())
      return status;
    took_ns += clock_.now_ns() - began_ns;
    bytes += kValues * value_.size();
    // The server is full or read-only. The rate stays "not measured".
    if (!facts_.writes.ok()) return {};
  }
  facts_.set_bytes_per_s = rate(bytes, took_ns);
  return {};
}

// Compares each value with the stored bytes: a rate of wrong bytes is no rate. If the server has
// evicted a value meanwhile, the rate stays unmeasured.
Status Check::measure_gets() {
  if (!facts_.writes.ok()) return {};
  std::vector<std::byte> got(kValues * value_.size());
  std::uint64_t bytes = 0, took_ns = 0;
  std::size_t whole = 0;
  for (std::size_t round = 0; round < kMostRounds && took_ns < kRateMs * kNsPerMs / server_.share;
       ++round) {
    std::ranges::fill(got, std::byte{0});
    whole = 0;
    std::vector<remote::Request> requests(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      const std::span<std::byte> target = std::span(got).subspan(i * value_.size(), value_.size());
      requests[i].around.before = remote::format_command(Words{"GET", keys_[i]});
      requests[i].expect = {"$", target.size(), target};
      requests[i].then = [&whole](const Status& lost, const remote::Reply& reply) {
        whole += lost.ok() && reply.kind == remote::Reply::Kind::kPayload &&
                         reply.integer == std::int64_t{remote::kPartBytes}
                     ? 1
                     : 0;
      };
    }
    const std::uint64_t began_ns = clock_.now_ns();
    if (Status status = dialogue_->run(std::move(requests), deadline(kValuesMs)); !status.ok())
      return status;
    took_ns += clock_.now_ns() - began_ns;
    if (whole != kValues) return {};
    for (std::size_t i = 0; i < kValues; ++i)
      if (std::memcmp(got.data() + i * value_.size(), value_.data(), value_.size()) != 0)
        return {Code::kDataLoss, "the server returned other bytes than were written"};
    bytes += got.size();
  }
  facts_.get_bytes_per_s = rate(bytes, took_ns);
  return {};
}

Status Check::remove_values() {
  for (const std::string& key : keys_)  // one key a command: the keys may have several slots
    if (Status status = ask({"UNLINK", key}, ":").status(); !status.ok())
      return status;  // a lost connection; try_commands() has reported an error reply of UNLINK
  return {};
}

}  // namespace

ServerFacts check_server(const remote::RemoteOptions& options, const ServerToCheck& server,
                         const base::Clock& clock) {
  return Check(options, server, clock).run();
}

}  // namespace larder::backend_check
