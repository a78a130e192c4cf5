#include "sidecar/ctl/backend_report.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sidecar/base/text.h"
#include "sidecar/ctl/answer_json.h"
#include "sidecar/ctl/screen_lines.h"

namespace larder::ctl {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kTitles{"CANNOT BE USED", "Warnings", "Notes"};
constexpr std::array<const char*, 3> kWeights{"unusable", "warning", "note"};
constexpr std::array<const char*, 3> kModes{"standalone", "sentinel",
                                            "cluster"};  // by remote::Mode

// An unknown fact shows "not told": the user may not be allowed to run INFO or CONFIG GET.
std::string known(const std::string& text) {
  return text.empty() ? "not told" : text;
}
// "no limit" and "not told" are different answers, so the caller gives the word for a missing
// number.
std::string bytes_or(const std::optional<std::uint64_t>& bytes, const char* none) {
  return bytes ? base::bytes_text(*bytes) : none;
}
// Three values: a fact may be true, false or unknown.
std::string yes_or_no(const std::optional<bool>& value, const char* yes, const char* no) {
  return !value ? "not told" : *value ? yes : no;
}

std::string micros(std::uint64_t ns) {
  return base::grouped(ns / 1000) + " us";
}
// 0 is "not measured" (ServerFacts), and never a measured rate.
std::string transfer_rate(std::uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? "not measured" : base::bytes_text(bytes_per_s) + "/s";
}

// The enum Weight, kTitles and kWeights have one order: unusable, warning, note.
std::size_t count(std::span<const backend_check::Diagnostic> findings,
                  backend_check::Weight weight) {
  return static_cast<std::size_t>(
      std::ranges::count(findings, weight, &backend_check::Diagnostic::weight));
}

std::string verdict(std::span<const backend_check::Diagnostic> findings) {
  if (count(findings, backend_check::Weight::kUnusable) != 0)
    return "larderd cannot use the backend with these settings.";
  const std::size_t warnings = count(findings, backend_check::Weight::kWarning);
  return warnings == 0
             ? "larderd can use the backend."
             : "larderd can use the backend, with " + base::plural(warnings, "warning") + ".";
}

// For programs: a fixed word, while the sentence of verdict() may change.
const char* verdict_word(std::span<const backend_check::Diagnostic> findings) {
  if (count(findings, backend_check::Weight::kUnusable) != 0) return kWeights[0];
  return count(findings, backend_check::Weight::kWarning) != 0 ? "warnings" : "ok";
}

std::string facts_text(const backend_check::ServerFacts& facts) {
  if (facts.connect_ns == 0) return "";  // no connection was made
  std::string out =
      line("server", facts.version.empty() ? "not told" : facts.product + " " + facts.version);
  out += line("mode, role", known(facts.mode) + ", " + known(facts.role));
  // A Sentinel keeps no keys, so memory, persistence and rates have no meaning.
  if (facts.mode == "sentinel") return out;
  const std::string most =
      facts.max_bytes == 0U ? "no limit" : bytes_or(facts.max_bytes, "not told");
  out += line("maxmemory",
              most + ", " + known(facts.policy) + ", " + bytes_or(facts.used_bytes, "?") + " used");
  out += line("persistence", yes_or_no(facts.append_only, "appendonly", "no appendonly") + ", " +
                                 yes_or_no(facts.snapshots, "save points", "no save points"));
  out += line("io-threads", facts.io_threads ? std::to_string(*facts.io_threads) : "not told");
  if (facts.pings.count != 0)
    out +=
        line("PING", "p50 " + micros(facts.pings.p50_ns) + ", p99 " + micros(facts.pings.p99_ns) +
                         " (" + base::grouped(facts.pings.count) + " asked)");
  // A server of the wrong mode was not used, so it has no rates.
  if (facts.ended != backend_check::ServerFacts::Step::kMode) {
    out += line("SET of 2 MiB", transfer_rate(facts.set_bytes_per_s));
    out += line("GET of 2 MiB", transfer_rate(facts.get_bytes_per_s));
  }
  return out;
}

std::string sentinel_text(const backend_check::CheckedServer& sentinel) {
  const backend_check::ServerFacts& facts = sentinel.facts;
  std::string out = "Sentinel " + remote::text_of(sentinel.endpoint) + ": ";
  if (facts.connect_ns == 0) return out + "no answer\n";
  out += facts.version.empty() ? known(facts.mode) : facts.product + " " + facts.version;
  if (facts.named) out += ", names " + remote::text_of(*facts.named);
  if (facts.quorum && facts.other_sentinels)
    // A Sentinel counts only the others.
    out += ", quorum " + std::to_string(*facts.quorum) + " of " +
           std::to_string(*facts.other_sentinels + 1);
  return out + "\n";
}

// A standalone server has no heading: its address is in the first line of the report.
std::string servers_text(const backend_check::InstallationFacts& facts) {
  std::string out;
  for (const backend_check::CheckedServer& sentinel : facts.sentinels)
    out += sentinel_text(sentinel);
  for (const backend_check::CheckedServer& server : facts.servers) {
    if (facts.mode != remote::Mode::kStandalone)
      out += "Master " + remote::text_of(server.endpoint);
    if (facts.mode == remote::Mode::kCluster) out += ", " + base::plural(server.slots, "slot");
    if (facts.mode != remote::Mode::kStandalone)
      out += server.facts.connect_ns == 0 ? ": no answer\n" : "\n";
    out += facts_text(server.facts);
  }
  return out;
}

std::string where_text(const backend_check::Diagnostic& finding,
                       const backend_check::InstallationFacts& facts) {
  if (finding.where.empty()) return "";
  // A Cluster may have hundreds of masters: "all masters" instead of a line of addresses.
  if (finding.where.size() == facts.servers.size() && finding.where.size() > 2)
    return "all masters: ";
  std::string out;
  for (const std::string& where : finding.where) out += (out.empty() ? "" : ", ") + where;
  return out + ": ";
}

// null for an unknown or unmeasured value, so that programs do not take 0 for a measurement.
template <typename Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json();
}
ordered_json or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}
ordered_json or_null(std::uint64_t measured) {
  return measured == 0 ? ordered_json() : ordered_json(measured);
}

// Numbers and no units in words: programs compare and sum.
ordered_json sentinel_json(const backend_check::CheckedServer& sentinel) {
  const backend_check::ServerFacts& facts = sentinel.facts;
  return {{"at", remote::text_of(sentinel.endpoint)},
          {"product", or_null(facts.product)},
          {"version", or_null(facts.version)},
          {"master", or_null(facts.named ? remote::text_of(*facts.named) : "")},
          {"quorum", or_null(facts.quorum)},
          {"other_sentinels", or_null(facts.other_sentinels)},
          {"replicas", or_null(facts.replicas)}};
}

// All keys are always present, with null for an unknown value, so programs need no check for a key.
ordered_json server_json(const backend_check::CheckedServer& server) {
  const backend_check::ServerFacts& facts = server.facts;
  return {{"at", remote::text_of(server.endpoint)},
          {"product", or_null(facts.product)},
          {"version", or_null(facts.version)},
          {"mode", or_null(facts.mode)},
          {"role", or_null(facts.role)},
          {"slots", or_null(std::uint64_t{server.slots})},
          {"replicas", or_null(facts.replicas)},
          {"databases", or_null(facts.databases)},
          {"io_threads", or_null(facts.io_threads)},
          {"memory",
           {{"max_bytes", or_null(facts.max_bytes)},
            {"used_bytes", or_null(facts.used_bytes)},
            {"machine_bytes", or_null(facts.machine_bytes)},
            {"policy", or_null(facts.policy)}}},
          {"persistence",
           {{"appendonly", or_null(facts.append_only)}, {"save_points", or_null(facts.snapshots)}}},
          {"connect_us", or_null(facts.connect_ns / 1000)},
          {"ping_us",
           {{"count", facts.pings.count},
            {"p50", or_null(facts.pings.p50_ns / 1000)},
            {"p99", or_null(facts.pings.p99_ns / 1000)}}},
          {"set_bytes_per_s", or_null(facts.set_bytes_per_s)},
          {"get_bytes_per_s", or_null(facts.get_bytes_per_s)}};
}

}  // namespace

std::string backend_screen(const config::BackendConfig& backend,
                           const backend_check::InstallationFacts& facts,
                           std::span<const backend_check::Diagnostic> findings) {
  std::string out = "Backend " + base::printable(backend.url) + ", keys " + backend.prefix +
                    ":*\n" + servers_text(facts);
  for (std::size_t weight = 0; weight < kTitles.size(); ++weight) {
    if (count(findings, static_cast<backend_check::Weight>(weight)) == 0) continue;
    // By weight, the heaviest first: the reader may stop after the first part.
    out += "\n" + std::string(kTitles[weight]) + "\n";
    for (const backend_check::Diagnostic& finding : findings)
      if (finding.weight == static_cast<backend_check::Weight>(weight))
        out += "  " + base::printable(where_text(finding, facts) + finding.what) + "\n    -> " +
               // Texts may quote names from replies of a server, which is not trusted with a
               // terminal.
               base::printable(finding.remedy) + "\n";
  }
  return out + "\n" + verdict(findings) + "\n";
}

std::string backend_json(const config::BackendConfig& backend,
                         const backend_check::InstallationFacts& facts,
                         std::span<const backend_check::Diagnostic> findings) {
  ordered_json found = ordered_json::array();
  for (const backend_check::Diagnostic& finding : findings)
    found.push_back({{"id", finding.id},
                     {"weight", kWeights[static_cast<std::size_t>(finding.weight)]},
                     {"where", finding.where},
                     {"what", finding.what},
                     {"do", finding.remedy}});
  ordered_json sentinels = ordered_json::array(), servers = ordered_json::array();
  for (const backend_check::CheckedServer& sentinel : facts.sentinels)
    sentinels.push_back(sentinel_json(sentinel));
  for (const backend_check::CheckedServer& server : facts.servers)
    servers.push_back(server_json(server));
  // error_handler_t::replace below: words of a server may be no UTF-8, and the default would throw.
  const ordered_json answer{{"url", backend.url},
                            {"prefix", backend.prefix},
                            {"mode", kModes[static_cast<std::size_t>(facts.mode)]},
                            {"verdict", verdict_word(findings)},
                            {"sentinels", sentinels},
                            {"servers", servers},
                            {"findings", found}};
  return answer.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace larder::ctl
