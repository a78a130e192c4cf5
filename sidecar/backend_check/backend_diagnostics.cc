#include "sidecar/backend_check/backend_diagnostics.h"

#include <algorithm>
#include <array>
#include <optional>

#include "sidecar/backend_check/backend_failures.h"
#include "sidecar/base/time_units.h"
#include "sidecar/base/text.h"

namespace larder::backend_check {
namespace {

using Maybe = std::optional<Diagnostic>;

using base::kNsPerMs;
constexpr std::uint64_t kMiB = 1ULL << 20;
// On a smaller machine the advised io-threads 4 would take the processors of other programs.
constexpr unsigned kManyProcessors = 8;
constexpr std::uint64_t kLittleMemory = 1024 * kMiB;
// A load costs at least one round trip, so short prompts gain little at such a latency.
constexpr std::uint64_t kSlowPingNs = 20 * kNsPerMs,
                        kSlowConnectNs =
                            500 * kNsPerMs;  // larderd gives a connection 500 ms, and 1 s with TLS
// 128 KiB a token (8B model): 20 MiB/s are 160 tokens a second, fewer than an engine computes.
constexpr std::uint64_t kUselessRate = 20 * kMiB, kSlowRate = 200 * kMiB;

Diagnostic finding(Weight weight, const char* id, std::string what, std::string remedy) {
  return {weight, id, std::move(what), std::move(remedy)};
}

bool has(const ServerFacts& facts, std::string_view command) {
  return std::ranges::find(facts.missing, command) == facts.missing.end();
}

// The step that failed explains the missing facts, so failure_finding() is the only finding about
// them.
Maybe ended_early(const Seen& seen) {
  if (seen.facts.ended == ServerFacts::Step::kNone) return {};
  return failure_finding(seen);
}

Maybe missing_commands(const Seen& seen) {
  const std::vector<std::string>& missing = seen.facts.missing;
  if (missing.empty()) return {};
  std::string names;
  for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
  // larderd stores and loads without these four commands. Only drops, checks of idle connections,
  // moves of slots and reads from replicas need them.
  const bool all_needed = std::ranges::all_of(missing, [](const std::string& name) {
    return name == "SCAN" || name == "PING" || name == "ASKING" || name == "READONLY";
  });
  return finding(all_needed ? Weight::kWarning : Weight::kUnusable, "rights",
                 "this user may not run " + names + " on " + seen.backend.prefix +
                     ":*, or the server does not have these commands" +
                     (all_needed && !has(seen.facts, "SCAN")
                          ? ": `larderctl drop` and `clear` do not reach the server"
                          : ""),
                 least_rights(seen.backend));
}

// The text of the Status is one of larderd's own (resp/error_reply.h), so `find` cannot meet a
// server's free text.
Maybe takes_no_writes(const Seen& seen) {
  const std::string& why = seen.facts.writes.text();
  if (seen.facts.writes.ok()) return {};
  if (why.find("OOM") != std::string::npos)
    return finding(Weight::kUnusable, "full", why,
                   "CONFIG SET maxmemory-policy allkeys-lru, so that the oldest keys make room");
  if (why.find("READONLY") != std::string::npos)
    return finding(Weight::kUnusable, "replica", why,
                   "name the server's master: a replica stores no chunk");
  if (why.find("MISCONF") != std::string::npos)
    return finding(Weight::kUnusable, "misconf", why,
                   "CONFIG SET save \"\" (a cache needs no snapshots), or give the server a disk "
                   "for its snapshots");
  return finding(Weight::kUnusable, "no-writes", why, "the server's log may give the reason");
}

// Only a writable replica (replica-read-only no) gets here: takes_no_writes() reports the others.
Maybe replica(const Seen& seen) {
  if (seen.facts.role != "replica" || !seen.facts.writes.ok() ||
      seen.facts.ended != ServerFacts::Step::kNone)
    return {};
  return finding(
      Weight::kWarning, "replica",
      "the server is a replica: the master never gets writes to a replica, and undoes them",
      "name the server's master");
}

// Only with a limit: without maxmemory a server never evicts, and no_limit() says so.
Maybe no_eviction(const Seen& seen) {
  const ServerFacts& facts = seen.facts;
  if (facts.policy != "noeviction" || facts.max_bytes.value_or(0) == 0) return {};
  // The share tells a full server, which refuses now, from one that will refuse later.
  const auto used = static_cast<double>(facts.used_bytes.value_or(0)),
             most = static_cast<double>(*facts.max_bytes);
  return finding(
      Weight::kWarning, "noeviction",
      "maxmemory-policy is noeviction: a full server refuses every chunk (" +
          base::percent_text(used, most) + " of maxmemory are used)",
      "CONFIG SET maxmemory-policy allkeys-lru, and the same in the server's configuration file");
}

// The policies volatile-* evict only keys with a time to live.
Maybe nothing_volatile(const Seen& seen) {
  if (!seen.facts.policy.starts_with("volatile-") || seen.backend.ttl_s != 0) return {};
  return finding(Weight::kWarning, "volatile",
                 "maxmemory-policy is " + seen.facts.policy +
                     " and backend.ttl is 0: the server never evicts a key of Larder",
                 "CONFIG SET maxmemory-policy allkeys-lru; or set backend.ttl");
}

// Three quarters of the machine: fragmentation, buffers of clients and the system need the rest.
std::string enough_memory(const Seen& seen) {
  const std::uint64_t machine = seen.facts.machine_bytes.value_or(0);
  const std::string size = machine == 0 ? "BYTES" : std::to_string(machine / 4 * 3 / kMiB) + "mb";
  return "CONFIG SET maxmemory " + size + (machine == 0 ? "" : " (three quarters of the machine)") +
         " and maxmemory-policy allkeys-lru, and the same in the server's configuration file";
}

Maybe no_limit(const Seen& seen) {
  // nullopt is "unknown" and gives no finding here; not_told() reports it once.
  if (!seen.facts.max_bytes || *seen.facts.max_bytes != 0) return {};
  return finding(Weight::kWarning, "no-maxmemory",
                 "maxmemory is 0: chunks fill the machine until the kernel kills the server",
                 enough_memory(seen));
}

// A server uses more than its maxmemory: fragmentation of the allocator, and buffers of clients.
Maybe too_much_memory(const Seen& seen) {
  const std::uint64_t most = seen.facts.max_bytes.value_or(0),
                      machine = seen.facts.machine_bytes.value_or(0);
  // The last tenth of the machine is too little for everything else.
  if (machine == 0 || most <= machine / 10 * 9) return {};
  return finding(Weight::kWarning, "too-much-memory",
                 "maxmemory is " + base::bytes_text(most) + ", and the machine has " +
                     base::bytes_text(machine) +
                     ": the kernel kills the server before the first eviction",
                 enough_memory(seen));
}

Maybe little_memory(const Seen& seen) {
  const std::uint64_t most = seen.facts.max_bytes.value_or(0);
  if (most == 0 || most >= kLittleMemory) return {};
  return finding(Weight::kNote, "little-memory",
                 "maxmemory is " + base::bytes_text(most) + ": about " +
                     base::plural(most / (2 * kMiB), "value") + " of 2 MiB",
                 "a token of a model of 8 billion parameters takes about 128 KiB: compute the need "
                 "of your prompts");
}

// A cache needs no persistence: after a restart of the server all chunks are misses, and engines
// store them again.
Maybe append_only(const Seen& seen) {
  if (!seen.facts.append_only.value_or(false)) return {};
  return finding(
      Weight::kWarning, "appendonly",
      "appendonly is yes: the server also writes each chunk to disk, and stalls meanwhile",
      "CONFIG SET appendonly no, unless other users of this server need persistence: then give "
      "Larder a server of its own");
}

Maybe snapshots(const Seen& seen) {
  if (!seen.facts.snapshots.value_or(false)) return {};
  return finding(Weight::kWarning, "save",
                 "the server has save points: a snapshot forks the server, stalls it and may "
                 "double its memory",
                 "CONFIG SET save \"\", unless other users of this server need persistence: then "
                 "give Larder a server of its own");
}

// The number of processors is known for a local server only; otherwise the finding is a note.
Maybe one_thread(const Seen& seen) {
  if (seen.facts.io_threads.value_or(0) != 1) return {};
  const bool known = seen.facts.local;
  if (known && seen.processors < kManyProcessors) return {};
  return finding(known ? Weight::kWarning : Weight::kNote, "io-threads",
                 "io-threads is 1: one processor" +
                     (known ? " of " + std::to_string(seen.processors) : std::string()) +
                     " moves the bytes of all larderd",
                 "set io-threads 4 in the server's configuration file" +
                     std::string(known ? "" : ", if the machine has 8 processors or more"));
}

Maybe far_away(const Seen& seen) {
  if (seen.facts.connect_ns > kSlowConnectNs)
    return finding(Weight::kWarning, "slow-connect",
                   "the connection took " +
                       base::seconds_text(static_cast<double>(seen.facts.connect_ns) / 1e9) +
                       ", and larderd waits 500 ms, or 1 s with TLS",
                   "bring the server nearer, or reduce its load");
  if (seen.facts.pings.p50_ns <= kSlowPingNs) return {};
  return finding(Weight::kWarning, "latency",
                 "half of all answers take longer than " +
                     base::seconds_text(static_cast<double>(seen.facts.pings.p50_ns) / 1e9),
                 "computing a short prompt is faster than loading it from there: bring the server "
                 "nearer, or reduce its load");
}

Maybe slow(const Seen& seen) {
  const std::uint64_t rate = seen.facts.get_bytes_per_s;
  if (rate == 0 || rate >= kSlowRate) return {};
  // A slow server is no fault as such: larderd measures the rate and loads only chunks that pay
  // off.
  return finding(rate < kUselessRate ? Weight::kWarning : Weight::kNote, "rate",
                 "reads from the server reach " + base::bytes_text(rate) + " a second",
                 "larderd loads only chunks that would take longer to compute: use a faster "
                 "network, or a server with less load");
}

// A note only: the network may be the user's alone.
Maybe in_clear(const Seen& seen) {
  if (seen.backend.tls || seen.facts.local || seen.facts.connect_ns == 0) return {};
  return finding(Weight::kNote, "no-tls",
                 "the connection has no TLS: others on the network can read the password and the "
                 "cached prompts",
                 "write rediss:// and the server's tls-port, unless the network is yours alone");
}

Maybe open_to_all(const Seen& seen) {
  if (!seen.backend.password_file.empty() || seen.facts.local ||
      seen.facts.ended != ServerFacts::Step::kNone)
    return {};
  return finding(Weight::kNote, "open",
                 "the server has no password: every client that reaches the server can read, "
                 "change and remove chunks",
                 "create an ACL user for Larder: " + least_rights(seen.backend));
}

Maybe not_told(const Seen& seen) {
  if (seen.facts.ended != ServerFacts::Step::kNone ||
      (seen.facts.max_bytes && seen.facts.snapshots))
    return {};
  const bool all = !seen.facts.max_bytes;
  return finding(
      Weight::kNote, "not-told",
      all ? "this user may not run INFO: the settings of the server are unknown"
          : "this user may not run CONFIG GET: save points, io-threads and databases are unknown",
      all ? "give the user +info, and +config|get for the rest of this check"
          : "give the user +config|get for this check; larderd works without this right");
}

// In the order of the text: within one weight, findings keep this order (stable sort).
// Pure functions from facts to a finding: a new check is one function and one row. The operator
// shows the same findings as conditions.
constexpr std::array<Maybe (*)(const Seen&), 17> kChecks{
    {ended_early, missing_commands, takes_no_writes, replica, no_eviction, nothing_volatile,
     no_limit, too_much_memory, little_memory, append_only, snapshots, one_thread, far_away, slow,
     in_clear, open_to_all, not_told}};

}  // namespace

std::vector<Diagnostic> findings_of(const Seen& seen) {
  std::vector<Diagnostic> findings;
  for (const auto& check : kChecks)
    if (Maybe found = check(seen)) findings.push_back(*std::move(found));
  std::ranges::stable_sort(findings, {}, &Diagnostic::weight);
  return findings;
}

// The commands of try_commands() in server_check.cc, HELLO and INFO, and for some configurations
// SELECT and CLUSTER SLOTS.
std::string least_rights(const config::BackendConfig& backend) {
  return "ACL SETUSER " + (backend.user.empty() ? "larder" : backend.user) + " on >PASSWORD ~" +
         backend.prefix + ":* +hello +ping +info" + (backend.database == 0 ? "" : " +select") +
         " +get +getrange +set +getdel +unlink +scan" +
         (backend.mode == config::BackendMode::kCluster ? " +cluster|slots +asking" : "") +
         (backend.read_replicas ? " +readonly" : "");
}

std::string least_sentinel_rights(const config::BackendConfig& backend) {
  return "ACL SETUSER " + (backend.sentinel_user.empty() ? "larder" : backend.sentinel_user) +
         " on >PASSWORD +hello +ping +info +sentinel|get-master-addr-by-name (at each Sentinel)";
}

}  // namespace larder::backend_check
