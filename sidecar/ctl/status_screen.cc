#include "sidecar/ctl/status_screen.h"

#include "sidecar/base/text.h"
#include "sidecar/ctl/peers_screen.h"
#include "sidecar/ctl/screen_lines.h"

namespace larder::ctl {
namespace {

std::string hit_share(const ModelCounts& counts) {
  return base::percent_text(static_cast<double>(counts.hit), static_cast<double>(counts.asked));
}

// The first question of a user, answered in one line before any number.
std::string verdict(const ModelCounts& totals) {
  // Three states are shown apart: not connected yet, nothing found yet, and a share.
  if (totals.requests == 0) return "no request has been looked up yet";
  if (totals.hit == 0) return "not yet: no prompt has been found";
  return "yes: " + hit_share(totals) + " of prompt tokens were found" +
         (totals.saved_seconds > 0
              ? ", " + base::seconds_text(totals.saved_seconds) + " of prefill saved"
              : "");
}

std::string helping(const Snapshot& now) {
  const ModelCounts& totals = now.all;
  std::string out = "\nIs it helping?  " + verdict(totals) + "\n";
  out +=
      line("prompt tokens", base::grouped(totals.hit) + " found of " + base::grouped(totals.asked) +
                                " asked (" + hit_share(totals) + ")");
  out += line(
      "requests",
      base::grouped(totals.requests_hit) + " with a hit of " + base::grouped(totals.requests) +
          // Salted requests explain misses: they hit only chunks with the same salt.
          (totals.salted == 0 ? "" : ", " + base::grouped(totals.salted) + " with a cache_salt"));
  out += line("prefill saved", base::seconds_text(totals.saved_seconds));
  out += line("moved", base::bytes_text(totals.loaded) + " loaded, " +
                           base::bytes_text(totals.stored) + " stored");
  out += line("failed loads", base::grouped(now.loads_failed) + ", of these " +
                                  base::grouped(now.checksum_failures) +
                                  " by checksum (all recomputed)");
  return out;
}

// " in slots of 3 MiB, 20 MiB", or empty.
std::string sizes_text(const std::vector<std::uint64_t>& sizes) {
  std::string out;
  for (const std::uint64_t bytes : sizes)
    out += (out.empty() ? " in slots of " : ", ") + base::bytes_text(bytes);
  return out;
}

std::string memory(const MemoryState& memory) {
  const auto touched = static_cast<double>(memory.touched_bytes),
             used = static_cast<double>(memory.used_bytes);
  const auto capacity = static_cast<double>(memory.capacity_bytes);
  std::string out = "\nMemory\n";
  out += line("used", base::bar(used, capacity, kBarWidth) + " " +
                          base::bytes_text(memory.used_bytes) + " of " +
                          base::bytes_text(memory.capacity_bytes) + " (" +
                          base::percent_text(used, capacity) + ")");
  // Only while larderd still touches its memory after a start.
  if (touched < capacity)
    out += line("touched", base::bar(touched, capacity, kBarWidth) + " " +
                               base::bytes_text(memory.touched_bytes) +
                               ", the rest follows in the background");
  out += line("pages", base::bytes_text(memory.page_bytes) +
                           (memory.numa == "none" ? "" : ", NUMA " + memory.numa));
  out += line("chunks", base::grouped(memory.chunks) + sizes_text(memory.slot_sizes));
  // A line only where a user has pinned chunks.
  if (memory.pinned_bytes != 0) out += line("pinned", base::bytes_text(memory.pinned_bytes));
  out += line("evicted", base::grouped(memory.evicted.capacity) + " for room, " +
                             base::grouped(memory.evicted.resized) + " for another slot size, " +
                             base::grouped(memory.evicted.dropped) + " dropped, " +
                             base::grouped(memory.evicted.bad) + " bad");
  out += line("refused stores", base::grouped(memory.refused_no_space) + " for room, " +
                                    base::grouped(memory.refused_cap) + " over a session's cap");
  return out;
}

// "16.2% at 0.5 times this memory, 26.9% as it is, 39.8% at 2 times, 55.4% at 4 times".
std::string with_more(const std::vector<EstimatedHit>& estimate) {
  std::string out;
  for (const EstimatedHit& hit : estimate) {
    if (!out.empty()) out += ", ";
    out += base::percent_text(hit.ratio, 1);
    if (hit.size == 1)
      out += " as it is";
    else
      out += " at " + base::decimal_text(hit.size) + " times";
  }
  return out.empty() ? "" : line("would find", out + " the memory, by estimate");
}

// The lines about writes to and reads from a tier.
std::string moved(const TierState& tier) {
  return line("written",
              base::plural(tier.put, "chunk") + ", " + base::bytes_text(tier.put_bytes)) +
         line("brought up",
              base::plural(tier.got, "chunk") + ", " + base::bytes_text(tier.got_bytes)) +
         line("failed", base::grouped(tier.failed) + " writes and reads");
}

std::string title(const char* name, const TierState& tier) {
  return "\n" + base::column(name, 16) + tier.place +
         (tier.reason.empty() ? "" : ", DEGRADED: " + tier.reason) + "\n";
}

// Without the tier there is no part of the screen.
std::string disk(const TierState& disk) {
  if (disk.place.empty()) return "";
  const auto used = static_cast<double>(disk.used_bytes),
             capacity = static_cast<double>(disk.capacity_bytes);
  return title("Disk", disk) +
         line("used", base::bar(used, capacity, kBarWidth) + " " +
                          base::bytes_text(disk.used_bytes) + " of " +
                          base::bytes_text(disk.capacity_bytes) + " (" +
                          base::percent_text(used, capacity) + ")") +
         line("chunks", base::grouped(disk.chunks) + ", " + base::grouped(disk.write_queue) +
                            " on their way there") +
         moved(disk);
}

// No line about used bytes: only the server knows its content, because other larderd write there
// too.
std::string backend(const Snapshot& now) {
  const TierState& backend = now.backend;
  if (backend.place.empty()) return "";
  const ProbeState& probes = now.probes;
  return title("Backend", backend) +
         line("chunks", base::grouped(backend.chunks) + " known here, " +
                            base::grouped(backend.write_queue) + " on their way there") +
         line("asked", base::grouped(probes.asked) + " times, " + base::grouped(probes.late) +
                           " too late, " + base::grouped(probes.failed) + " in vain; " +
                           base::grouped(probes.shared) + " of " + base::grouped(probes.families) +
                           " chunks found were there alone") +
         moved(backend);
}

// Chunks that were evicted from memory and are in no lower tier.
std::string lost(const Snapshot& now) {
  if (now.disk.place.empty() && now.backend.place.empty()) return "";  // no peer takes a chunk
  return line("lost", base::grouped(now.evicted_unwritten) +
                          " evicted from memory before the write, " +
                          base::grouped(now.evicted_not_admitted) + " not meant for a tier");
}

// The shares of single models show a model that never hits, which the sum would hide.
std::string models(const std::vector<ModelCounts>& models) {
  if (models.empty()) return "";
  std::string out = "\nModels\n  " + base::column("name", 32) + base::column("requests", 12) +
                    base::column("tokens found", 16) + "prefill saved\n";
  for (const ModelCounts& model : models)
    out += "  " + base::column(model.name, 31) + " " +
           base::column(base::grouped(model.requests), 12) + base::column(hit_share(model), 16) +
           base::seconds_text(model.saved_seconds) + "\n";
  return out;
}

// Ids in full: `larderctl drop` takes them, and a user copies from here.
std::string namespaces(const std::vector<NamespaceState>& namespaces) {
  if (namespaces.empty()) return "";
  std::string out = "\nNamespaces\n";
  for (const NamespaceState& space : namespaces)
    out += "  " + space.id + "  " + space.model + ": " + base::plural(space.chunks, "chunk") +
           ", " + base::bytes_text(space.bytes) + ", " + base::plural(space.sessions, "session") +
           "\n";
  return out;
}

// Empty if the engine copies itself and the configuration asks for that.
std::string way(const SessionState& session) {
  if (session.way == "sidecar") return ", larderd copies";
  if (session.way_reason.empty()) return "";
  return ", copies by itself (" + session.way_reason + ": " + session.way_why + ")";
}

// Shows the registered bytes: for the rest an engine copies through staging memory, which is
// slower.
std::string on_a_gpu(const SessionState& session) {
  if (session.copies_by.empty()) return "";
  return "\n    GPU copies: " + session.copies_by + "; " +
         base::bytes_text(session.registered_bytes) + " of the memory registered";
}

std::string sessions(const Sessions& sessions) {
  std::string out = "\nSessions        " + base::grouped(sessions.attached.size()) + " attached, " +
                    base::grouped(sessions.opened) + " ever, " + base::grouped(sessions.refused) +
                    " refused, " + base::grouped(sessions.protocol_errors) +
                    " ended by protocol errors\n";
  for (const SessionState& session : sessions.attached)
    out += "  " + session.engine + ": " + base::plural(session.holds, "hold") + ", " +
           base::plural(session.grants, "grant") + (session.silent ? ", SILENT" : "") +
           way(session) + on_a_gpu(session) + "\n";
  return out;
}

// The word "none" tells a healthy larderd from a screen that ends too early.
std::string fallbacks(const std::vector<Fallback>& fallbacks) {
  if (fallbacks.empty()) return "\nFallbacks       none\n";
  std::string out = "\nFallbacks\n";
  for (const Fallback& fallback : fallbacks)
    out += line(fallback.kind,
                fallback.why +
                    (fallback.times == 0 ? "" : " (" + base::plural(fallback.times, "time") + ")"));
  return out;
}

}  // namespace

std::string status_screen(const Snapshot& now) {
  return headline(now) + helping(now) + memory(now.memory) + with_more(now.estimate) +
         disk(now.disk) + peers_lines(now) + backend(now) + lost(now) + models(now.models) +
         namespaces(now.namespaces) + sessions(now.sessions) + fallbacks(now.fallbacks);
}

}  // namespace larder::ctl
