#include "sidecar/ctl/snapshot.h"

#include "sidecar/base/text.h"
#include "sidecar/ctl/answer_json.h"

namespace larder::ctl {
namespace {

using nlohmann::json;

ModelCounts read_model(const json& model) {
  // Missing keys throw json::exception, which understood() turns into an error. Keys of newer
  // versions are read with number_if().
  ModelCounts counts{text_at(model, "model"),          number_at(model, "requests"),
                     number_at(model, "requests_hit"), number_at(model, "tokens_asked"),
                     number_at(model, "tokens_hit"),   number_at(model, "bytes_loaded"),
                     number_at(model, "bytes_stored"), 0};
  counts.too_short = number_if(model, "requests_short");  // missing in an older larderd
  counts.salted = number_if(model, "requests_salted");
  const std::uint64_t computed = number_at(model, "prefill_tokens");
  // Before the first computed prompt there is no speed, and the saved time is unknown.
  if (computed != 0)
    counts.saved_seconds = static_cast<double>(counts.hit) *
                           model.at("prefill_seconds").get<double>() /
                           static_cast<double>(computed);
  return counts;
}

// Each model has its own speed, so the saved seconds are summed and not computed from sums.
void add(ModelCounts& sum, const ModelCounts& model) {
  sum.requests += model.requests;
  sum.requests_hit += model.requests_hit;
  sum.asked += model.asked;
  sum.hit += model.hit;
  sum.loaded += model.loaded;
  sum.stored += model.stored;
  sum.too_short += model.too_short;
  sum.salted += model.salted;
  sum.saved_seconds += model.saved_seconds;
}

MemoryState read_memory(const json& status) {
  const json& memory = status.at("memory");
  const json& evicted = memory.at("evicted");
  MemoryState state;
  state.capacity_bytes = number_at(memory, "capacity_bytes");
  state.touched_bytes = number_at(memory, "touched_bytes");
  state.used_bytes = number_at(memory, "used_bytes");
  state.pinned_bytes = number_at(memory, "pinned_bytes");
  if (memory.contains("keep"))  // missing in an older larderd
    state.keep_bytes = number_at(memory.at("keep"), "bytes");
  state.page_bytes = number_at(memory, "page_bytes");
  state.numa = text_at(memory, "numa");
  state.chunks = number_at(memory.at("slots"), "committed");
  for (const json& size : memory.at("slot_sizes"))
    // Sizes only: the screen explains with them why a large chunk may find no room.
    state.slot_sizes.push_back(number_at(size, "slot_bytes"));
  state.evicted = {number_at(evicted, "capacity"), number_at(evicted, "dropped"),
                   number_at(evicted, "bad"), number_at(evicted, "resized")};
  const json& stores = status.at("stores");
  state.refused_no_space = number_at(stores, "refused_no_space") +
                           number_if(stores, "refused_own_prompt");  // missing in an older larderd
  state.refused_cap = number_at(stores, "refused_cap");
  return state;
}

std::vector<EstimatedHit> read_estimate(const json& status) {
  const auto estimate = status.find("estimate");
  // Without looked-up chunks every ratio is 0, which would read as "more memory does not help".
  if (estimate == status.end() || number_at(*estimate, "chunks_asked") == 0) return {};
  std::vector<EstimatedHit> hits;
  for (const json& hit : estimate->at("hit_ratio"))
    hits.push_back({hit.at("size").get<double>(), hit.at("hit_ratio").get<double>()});
  return hits;
}

// nullptr if the value is null, or missing in the reply of an older larderd.
const json* tier_of(const json& status, const char* name) {
  const auto found = status.find(name);
  return found == status.end() || found->is_null() ? nullptr : &*found;
}

// `place`: the key of the tier's address, "path", "members" or "url".
TierState read_tier(const json& status, const char* name, const char* place) {
  TierState state;
  const json* tier = tier_of(status, name);
  if (tier == nullptr) return state;
  const json& puts = tier->at("puts");
  const json& gets = tier->at("gets");
  state.place = text_at(*tier, place);
  state.reason = text_at(*tier, "reason");
  state.serving =
      tier->contains("serving") && tier->at("serving").get<bool>();  // an older larderd's has none
  state.capacity_bytes = number_at(*tier, "capacity_bytes");
  state.used_bytes = number_at(*tier, "used_bytes");
  state.chunks = number_at(*tier, "chunks");
  state.write_queue = number_at(*tier, "write_queue");
  state.put = number_at(puts, "ok");
  state.put_bytes = number_at(puts, "bytes");
  state.got = number_at(gets, "ok");
  state.got_bytes = number_at(gets, "bytes");
  // One number on the screen. /v1/status has both.
  state.failed = number_at(puts, "failed") + number_at(gets, "failed");
  return state;
}

TierState read_peers(const json& status) {
  TierState state = read_tier(status, "peers", "members");
  const json* peers = tier_of(status, "peers");
  // No peers.members, or an older larderd: the screen shows no part about peers.
  if (peers == nullptr) return state;
  state.servers = number_at(peers->at("servers"), "known");
  state.servers_reachable = number_at(peers->at("servers"), "reachable");
  return state;
}

PeerServing read_peer_serving(const json& status) {
  const json* serving = tier_of(status, "peer_serving");
  if (serving == nullptr) return {};
  const json& connections = serving->at("connections");
  const json& probes = serving->at("probes");
  return {text_at(*serving, "address"),
          number_at(*serving, "peers"),
          number_at(connections, "open"),
          number_at(connections, "refused"),
          number_at(probes, "chunks"),
          number_at(probes, "found"),
          number_at(serving->at("gets"), "bytes"),
          number_at(*serving, "held_bytes")};
}

ProbeState read_probes(const json& status) {
  const json* backend = tier_of(status, "backend");
  if (backend == nullptr) return {};
  const json& probes = backend->at("probes");
  return {number_at(probes, "asked"), number_at(probes, "late"), number_at(probes, "failed"),
          number_at(probes, "families"), number_at(probes, "shared")};
}

Sessions read_sessions(const json& sessions) {
  Sessions state;
  for (const json& session : sessions.at("attached"))
    state.attached.push_back({text_at(session, "engine"), number_at(session, "holds"),
                              number_at(session, "grants"), session.at("silent").get<bool>(),
                              text_at(session, "namespace"), "", "", ""});
  // A second pass for keys that older versions lack, so the first pass stays strict.
  for (std::size_t i = 0; i < state.attached.size(); ++i) {
    const json& session = sessions.at("attached").at(i);
    if (!session.contains("transfer")) continue;  // an older larderd
    state.attached[i].way = text_at(session.at("transfer"), "way");
    state.attached[i].way_reason = text_at(session.at("transfer"), "reason");
    state.attached[i].way_why = text_at(session.at("transfer"), "why");
    // Present since engines report their way of copying; missing before.
    if (!session.at("transfer").contains("copies")) continue;
    state.attached[i].copies_by = text_at(session.at("transfer"), "copies");
    state.attached[i].registered_bytes = number_at(session.at("transfer"), "registered_bytes");
  }
  state.opened = number_at(sessions, "opened");
  state.refused = number_at(sessions, "refused");
  state.protocol_errors = number_at(sessions, "protocol_errors");
  return state;
}

// larderctl and larderd may have different versions during an update. Keys that came later are read
// with find(), contains() or number_if().
// Engines choose names. text_at() makes names printable, so control characters never reach the
// terminal.
Snapshot read(const json& status) {
  Snapshot snapshot;
  snapshot.version = text_at(status, "version");
  snapshot.pool = text_at(status, "pool");
  snapshot.epoch = number_at(status, "epoch");
  snapshot.uptime_seconds = status.at("uptime_seconds").get<double>();
  snapshot.healthy = status.at("healthy").get<bool>();
  snapshot.ready = status.at("ready").get<bool>();
  for (const json& model : status.at("models")) {
    snapshot.models.push_back(read_model(model));
    add(snapshot.all, snapshot.models.back());
  }
  snapshot.loads_failed = number_at(status.at("trust"), "loads_failed");
  snapshot.checksum_failures = number_at(status.at("trust"), "checksum_failures");
  snapshot.memory = read_memory(status);
  snapshot.estimate = read_estimate(status);
  snapshot.disk = read_tier(status, "disk", "path");
  snapshot.peers = read_peers(status);
  snapshot.peer_serving = read_peer_serving(status);
  snapshot.backend = read_tier(status, "backend", "url");
  snapshot.probes = read_probes(status);
  snapshot.evicted_unwritten = number_at(status.at("memory").at("evicted"), "unwritten");
  snapshot.evicted_not_admitted = number_at(status.at("memory").at("evicted"), "not_admitted");
  for (const json& space : status.at("namespaces"))
    snapshot.namespaces.push_back({text_at(space, "id"), text_at(space, "model"),
                                   number_at(space, "chunks"), number_at(space, "bytes"),
                                   number_at(space, "sessions"),
                                   // Unchanged, for comparison: users of the field call printable()
                                   // before output.
                                   space.at("fingerprint").get<std::string>()});
  snapshot.sessions = read_sessions(status.at("sessions"));
  for (const json& fallback : status.at("fallbacks"))
    snapshot.fallbacks.push_back(
        {text_at(fallback, "kind"), text_at(fallback, "why"), number_if(fallback, "times")});
  return snapshot;
}

}  // namespace

Result<Snapshot> read_snapshot(const std::string& status_json) {
  return understood(status_json, read);
}

std::string headline(const Snapshot& snapshot) {
  // The worst state first: a loop that hangs may still look ready.
  const char* state = !snapshot.healthy ? "NOT HEALTHY: its event loop does not turn"
                      : !snapshot.ready ? "not ready: engines cannot attach yet"
                                        : "ready";
  return "larderd " + snapshot.version + ", pool " + snapshot.pool + ", up " +
         base::seconds_text(snapshot.uptime_seconds) + ": " + state + "\n";
}

}  // namespace larder::ctl
