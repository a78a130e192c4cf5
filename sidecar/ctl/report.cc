#include "sidecar/ctl/report.h"

#include <nlohmann/json.hpp>

#include "sidecar/ctl/snapshot.h"
#include "sidecar/ctl/words.h"

namespace larder::ctl {
namespace {

using nlohmann::json;

constexpr int kBarWidth = 30;

std::uint64_t number(const json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}
std::string text(const json& object, const char* key) {
  return printable(object.at(key).get<std::string>());
}

std::string line(std::string_view name, const std::string& value) {
  return "  " + column(name, 16) + value + "\n";
}

std::string verdict(const ModelCounts& totals) {
  if (totals.requests == 0) return "no request has been looked up yet";
  if (totals.hit == 0) return "not yet: no prompt has been found";
  const std::string share = percent_text(static_cast<double>(totals.hit), static_cast<double>(totals.asked));
  return "yes: " + share + " of prompt tokens were found" +
         (totals.saved_seconds > 0 ? ", " + seconds_text(totals.saved_seconds) + " of prefill saved" : "");
}

std::string helping(const json& status, const ModelCounts& totals) {
  const json& trust = status.at("trust");
  std::string out = "\nIs it helping?  " + verdict(totals) + "\n";
  out += line("prompt tokens", grouped(totals.hit) + " found of " + grouped(totals.asked) + " asked (" +
                                   percent_text(static_cast<double>(totals.hit), static_cast<double>(totals.asked)) + ")");
  out += line("requests", grouped(totals.requests_hit) + " with a hit of " + grouped(totals.requests));
  out += line("prefill saved", seconds_text(totals.saved_seconds));
  out += line("moved", bytes_text(totals.loaded) + " loaded, " + bytes_text(totals.stored) + " stored");
  out += line("failed loads", grouped(number(trust, "loads_failed")) + ", of these " +
                                  grouped(number(trust, "checksum_failures")) + " by checksum (all recomputed)");
  return out;
}

// " in slots of 3 MiB, 20 MiB", or nothing.
std::string sizes_text(const json& sizes) {
  std::string out;
  for (const json& size : sizes) out += (out.empty() ? " in slots of " : ", ") + bytes_text(number(size, "slot_bytes"));
  return out;
}

std::string memory(const json& status) {
  const json& memory = status.at("memory");
  const json& evicted = memory.at("evicted");
  const json& stores = status.at("stores");
  const std::uint64_t capacity = number(memory, "capacity_bytes");
  const std::uint64_t touched = number(memory, "touched_bytes");
  const std::uint64_t used = number(memory, "used_bytes");
  const auto share = static_cast<double>(capacity);
  std::string out = "\nMemory\n";
  out += line("used", bar(static_cast<double>(used), share, kBarWidth) + " " + bytes_text(used) + " of " + bytes_text(capacity) +
                          " (" + percent_text(static_cast<double>(used), share) + ")");
  if (touched < capacity)
    out += line("touched", bar(static_cast<double>(touched), share, kBarWidth) + " " + bytes_text(touched) +
                               ", the rest follows in the background");
  out += line("pages", bytes_text(number(memory, "page_bytes")));
  out += line("chunks", grouped(number(memory.at("slots"), "committed")) + sizes_text(memory.at("slot_sizes")));
  if (const std::uint64_t pinned = number(memory, "pinned_bytes"); pinned != 0) out += line("pinned", bytes_text(pinned));
  out += line("evicted", grouped(number(evicted, "capacity")) + " for room, " + grouped(number(evicted, "resized")) +
                             " for another slot size, " + grouped(number(evicted, "dropped")) + " dropped, " +
                             grouped(number(evicted, "bad")) + " bad");
  out += line("refused stores", grouped(number(stores, "refused_no_space")) + " for room, " +
                                    grouped(number(stores, "refused_cap")) + " over a session's cap");
  return out;
}

std::string models(const Snapshot& snapshot) {
  if (snapshot.models.empty()) return "";
  std::string out = "\nModels\n  " + column("name", 32) + column("requests", 12) + column("tokens found", 16) + "prefill saved\n";
  for (const ModelCounts& model : snapshot.models) {
    const std::string found = percent_text(static_cast<double>(model.hit), static_cast<double>(model.asked));
    out += "  " + column(model.name, 31) + " " + column(grouped(model.requests), 12) + column(found, 16) +
           seconds_text(model.saved_seconds) + "\n";
  }
  return out;
}

std::string namespaces(const json& status) {
  if (status.at("namespaces").empty()) return "";
  std::string out = "\nNamespaces\n";
  for (const json& space : status.at("namespaces"))
    out += "  " + text(space, "id") + "  " + text(space, "model") + ": " + plural(number(space, "chunks"), "chunk") + ", " +
           bytes_text(number(space, "bytes")) + ", " + plural(number(space, "sessions"), "session") + "\n";
  return out;
}

std::string sessions(const json& status) {
  const json& sessions = status.at("sessions");
  const json& attached = sessions.at("attached");
  std::string out = "\nSessions        " + grouped(attached.size()) + " attached, " + grouped(number(sessions, "opened")) +
                    " ever, " + grouped(number(sessions, "refused")) + " refused, " +
                    grouped(number(sessions, "protocol_errors")) + " ended by protocol errors\n";
  for (const json& session : attached)
    out += "  " + text(session, "engine") + ": " + plural(number(session, "holds"), "hold") + ", " +
           plural(number(session, "grants"), "grant") + (session.at("silent").get<bool>() ? ", SILENT" : "") + "\n";
  return out;
}

std::string fallbacks(const json& status) {
  const json& fallbacks = status.at("fallbacks");
  if (fallbacks.empty()) return "\nFallbacks       none\n";
  std::string out = "\nFallbacks\n";
  for (const json& fallback : fallbacks) out += line(text(fallback, "kind"), text(fallback, "why"));
  return out;
}

Status not_understood(const json::exception& error) {
  return {Code::kInvalidArgument, std::string("larderd's answer is not understood (another version?): ") + error.what()};
}

}  // namespace

Result<std::string> status_report(const std::string& body) {
  const Result<Snapshot> snapshot = read_snapshot(body);
  if (!snapshot.ok()) return snapshot.status();
  try {
    const json status = json::parse(body);
    return headline(*snapshot) + helping(status, snapshot->all) + memory(status) + models(*snapshot) + namespaces(status) +
           sessions(status) + fallbacks(status);
  } catch (const json::exception& error) {
    return not_understood(error);
  }
}

Result<std::string> dropped_report(const std::string& body) {
  try {
    return "dropped " + plural(number(json::parse(body), "dropped"), "chunk") + "\n";
  } catch (const json::exception& error) {
    return not_understood(error);
  }
}

std::string hashes_request(const std::string& space, std::span<const std::string> hashes) {
  const json request{{"namespace", space}, {"hashes", json(hashes)}};
  return request.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status add_acted(const std::string& body, std::uint64_t asked, Acted& acted) {
  try {
    const json answer = json::parse(body);
    acted.asked += asked;
    acted.found += number(answer, "found");
    acted.absent += number(answer, "absent");
    acted.refused += number(answer, "refused");
    return {};
  } catch (const json::exception& error) {
    return not_understood(error);
  }
}

std::string acted_report(std::string_view done, const Acted& acted) {
  std::string out =
      std::string(done) + " " + grouped(acted.found) + " of " + grouped(acted.asked) + (acted.asked == 1 ? " hash" : " hashes");
  if (acted.absent != 0) out += ", " + grouped(acted.absent) + " absent";
  if (acted.refused != 0) out += ", " + grouped(acted.refused) + " refused: too much is pinned";
  return out + "\n";
}

std::string acted_json(const Acted& acted) {
  const nlohmann::ordered_json answer{{"found", acted.found}, {"absent", acted.absent}, {"refused", acted.refused}};
  return answer.dump(2) + "\n";
}

std::string error_of(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_object() && parsed.contains("error") && parsed["error"].is_string()) return text(parsed, "error");
  return printable(body.substr(0, body.find('\n')));
}

}  // namespace larder::ctl
