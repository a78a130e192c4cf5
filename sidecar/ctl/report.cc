#include "sidecar/ctl/report.h"

#include <nlohmann/json.hpp>

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

std::string plural(std::uint64_t count, const char* one) {
  return grouped(count) + " " + one + (count == 1 ? "" : "s");
}

// What the engines' own speed makes of the tokens that they did not have to compute.
double seconds_saved(const json& model) {
  const std::uint64_t computed = number(model, "prefill_tokens");
  if (computed == 0) return 0;
  return static_cast<double>(number(model, "tokens_hit")) * model.at("prefill_seconds").get<double>() /
         static_cast<double>(computed);
}

struct Totals {
  std::uint64_t requests = 0, requests_hit = 0, asked = 0, hit = 0, loaded = 0, stored = 0;
  double saved = 0;
};

Totals totals_of(const json& models) {
  Totals totals;
  for (const json& model : models) {
    totals.requests += number(model, "requests");
    totals.requests_hit += number(model, "requests_hit");
    totals.asked += number(model, "tokens_asked");
    totals.hit += number(model, "tokens_hit");
    totals.loaded += number(model, "bytes_loaded");
    totals.stored += number(model, "bytes_stored");
    totals.saved += seconds_saved(model);
  }
  return totals;
}

std::string verdict(const Totals& totals) {
  if (totals.requests == 0) return "no request has been looked up yet";
  if (totals.hit == 0) return "not yet: no prompt has been found";
  const std::string share = percent_text(static_cast<double>(totals.hit), static_cast<double>(totals.asked));
  return "yes: " + share + " of prompt tokens were found" +
         (totals.saved > 0 ? ", " + seconds_text(totals.saved) + " of prefill saved" : "");
}

std::string head(const json& status) {
  const char* state = !status.at("healthy").get<bool>() ? "NOT HEALTHY: its event loop does not turn"
                      : !status.at("ready").get<bool>() ? "not ready: engines cannot attach yet"
                                                        : "ready";
  return "larderd " + text(status, "version") + ", pool " + text(status, "pool") + ", up " +
         seconds_text(status.at("uptime_seconds").get<double>()) + ": " + state + "\n";
}

std::string helping(const json& status) {
  const Totals totals = totals_of(status.at("models"));
  const json& trust = status.at("trust");
  std::string out = "\nIs it helping?  " + verdict(totals) + "\n";
  out += line("prompt tokens", grouped(totals.hit) + " found of " + grouped(totals.asked) + " asked (" +
                                   percent_text(static_cast<double>(totals.hit), static_cast<double>(totals.asked)) + ")");
  out += line("requests", grouped(totals.requests_hit) + " with a hit of " + grouped(totals.requests));
  out += line("prefill saved", seconds_text(totals.saved));
  out += line("moved", bytes_text(totals.loaded) + " loaded, " + bytes_text(totals.stored) + " stored");
  out += line("failed loads", grouped(number(trust, "loads_failed")) + ", of these " +
                                  grouped(number(trust, "checksum_failures")) + " by checksum (all recomputed)");
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
  out +=
      line("chunks", grouped(number(memory.at("slots"), "committed")) +
                         (number(memory, "slot_bytes") == 0 ? "" : " in slots of " + bytes_text(number(memory, "slot_bytes"))));
  out += line("evicted", grouped(number(evicted, "capacity")) + " for room, " + grouped(number(evicted, "resized")) +
                             " for another slot size, " + grouped(number(evicted, "dropped")) + " dropped, " +
                             grouped(number(evicted, "bad")) + " bad");
  out += line("refused stores", grouped(number(stores, "refused_no_space")) + " for room, " +
                                    grouped(number(stores, "refused_cap")) + " over a session's cap");
  return out;
}

std::string models(const json& status) {
  if (status.at("models").empty()) return "";
  std::string out = "\nModels\n  " + column("name", 32) + column("requests", 12) + column("tokens found", 16) + "prefill saved\n";
  for (const json& model : status.at("models")) {
    const std::string found =
        percent_text(static_cast<double>(number(model, "tokens_hit")), static_cast<double>(number(model, "tokens_asked")));
    out += "  " + column(text(model, "model"), 31) + " " + column(grouped(number(model, "requests")), 12) + column(found, 16) +
           seconds_text(seconds_saved(model)) + "\n";
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
  try {
    const json status = json::parse(body);
    return head(status) + helping(status) + memory(status) + models(status) + namespaces(status) + sessions(status) +
           fallbacks(status);
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

std::string error_of(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_object() && parsed.contains("error") && parsed["error"].is_string()) return text(parsed, "error");
  return printable(body.substr(0, body.find('\n')));
}

}  // namespace larder::ctl
