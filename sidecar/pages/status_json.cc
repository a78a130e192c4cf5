#include "sidecar/pages/status_json.h"

#include <nlohmann/json.hpp>

#include "sidecar/pages/utf8.h"

namespace larder::pages {
namespace {

using nlohmann::json;
// Keeps the order of the keys: people read the page, too.
using Object = nlohmann::ordered_json;

// Replaces bytes that are no UTF-8 (names of engines); the default would throw.
std::string text_of(const Object& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// The estimated hit ratio for other sizes of memory.
// Numbers and not labels of text, so that scripts can compute with the factors.
Object estimate_of(const stats::Estimate& estimate) {
  Object hits = Object::array();
  for (const stats::EstimatedHit& hit : estimate.hits)
    hits.push_back({{"size", hit.factor}, {"hit_ratio", hit.ratio}});
  return {{"hit_ratio", hits},
          {"chunks_asked", estimate.chunks_asked},
          {"chunks_sampled", estimate.chunks_sampled},
          {"chunks_tracked", estimate.chunks_tracked},
          {"sampling_ratio", estimate.sampling_ratio}};
}

// Keys are the names of stats::kDecisions, as in the metric load_decisions_total.
Object decisions_of(const stats::Stats& stats) {
  Object decisions;
  for (std::size_t i = 0; i < stats::kDecisions.size(); ++i)
    decisions[stats::kDecisions[i]] = stats.decisions[i];
  return decisions;
}

Object slot_sizes_of(const stats::Stats& stats) {
  Object sizes = Object::array();
  for (const stats::SlotSizeStats& size : stats.slot_sizes)
    sizes.push_back({{"slot_bytes", size.slot_bytes},
                     {"extents", size.extents},
                     {"slots", size.slots},
                     {"used", size.used}});
  return sizes;
}

// Scripts read these keys. A key may be added, and none changes its meaning.
Object memory_of(const stats::Stats& stats) {
  return {{"capacity_bytes", stats.arena_bytes},
          {"touched_bytes", stats.touched_bytes},
          {"used_bytes", stats.used_bytes},
          {"page_bytes", stats.arena_page_bytes},
          {"unused_bytes", stats.unused_bytes},
          {"pinned_bytes", stats.pinned_bytes},
          {"kept_bytes", stats.kept_bytes},
          {"keep",
           {{"chunks", stats.keep_slots},
            {"bytes", stats.keep_bytes},
            {"refused", stats.keep_refused}}},
          {"slot_sizes", slot_sizes_of(stats)},
          {"numa", stats.arena_numa},
          {"slots",
           {{"free", stats.slots_free},
            {"granted", stats.slots_granted},
            {"committed", stats.slots_committed},
            {"pinned", stats.slots_pinned},
            {"quarantined", stats.slots_quarantined}}},
          {"chunks_committed", stats.chunks_committed},
          {"restored", {{"chunks", stats.restored_chunks}, {"dropped", stats.restore_dropped}}},
          {"evicted",
           {{"capacity", stats.evicted_capacity},
            {"dropped", stats.evicted_dropped},
            {"bad", stats.evicted_bad},
            {"resized", stats.evicted_resized},
            {"unwritten", stats.evicted_unwritten},
            {"not_admitted", stats.evicted_not_admitted}}}};
}

// Count and sum only; the buckets are in /metrics.
Object operation(const stats::Histogram& histogram) {
  return {{"count", histogram.total()}, {"seconds", static_cast<double>(histogram.sum()) * 1e-9}};
}

// "families" are complete chunks: all shards and KV groups of one chunk hash.
Object fetches_of(const stats::Stats& stats) {
  return {{"asked", stats.fetches},           {"late", stats.fetches_late},
          {"kept", stats.fetches_kept},       {"families", stats.fetch_hits},
          {"chunks", stats.chunks_promoted},  {"bytes", stats.promoted_bytes},
          {"failed", stats.promotions_failed}};
}

// null without such a tier: clients tell "no disk" from "an empty disk". `place`: the key of the
// tier's address ("path", "url").
// One form for disk, backend and peers, so larderctl reads all three with one function.
Object tier_of(const stats::TierStats& disk, const char* place) {
  if (disk.place.empty()) return nullptr;
  return {{place, disk.place},
          {"mode", disk.mode},
          {"takes_puts", disk.takes_puts},
          {"takes_gets", disk.takes_gets},
          {"reason", disk.reason},
          {"capacity_bytes", disk.capacity_bytes},
          {"used_bytes", disk.used_bytes},
          {"chunks", disk.chunks},
          {"in_flight_bytes", disk.in_flight_bytes},
          {"write_queue", disk.write_queue},
          {"puts",
           {{"ok", disk.puts},
            {"bytes", disk.put_bytes},
            {"failed", disk.puts_failed},
            {"not_queued", disk.not_queued}}},
          {"gets",
           {{"ok", disk.gets},
            {"bytes", disk.get_bytes},
            {"missed", disk.gets_missed},
            {"failed", disk.gets_failed}}},
          {"refused", disk.refused},
          {"deadlines_missed", disk.deadlines_missed},
          {"corrupt", disk.records_corrupt},
          {"evicted",
           {{"capacity", disk.evicted_capacity},
            {"dropped", disk.evicted_dropped},
            {"expired", disk.evicted_expired}}},
          {"device",
           {{"written_bytes", disk.written_bytes},
            {"read_bytes", disk.read_bytes},
            {"read_window_bytes", disk.read_window_bytes},
            {"write_window_bytes", disk.write_window_bytes}}},
          {"times_degraded", disk.times_degraded},
          {"serving", disk.serving},
          {"read_latency_ns", disk.read_latency_ns},
          {"read_bytes_per_s", disk.read_bytes_per_s}};
}

// Fetches read from all lower tiers, so disk and backend both show the same counts.
Object disk_of(const stats::Stats& stats) {
  Object disk = tier_of(stats.disk, "path");
  if (!disk.is_null()) disk["fetches"] = fetches_of(stats);
  return disk;
}

// Probes concern shared tiers only: engines see the content of memory and disk in shared memory.
Object backend_of(const stats::Stats& stats) {
  Object backend = tier_of(stats.backend, "url");
  if (backend.is_null()) return backend;
  backend["fetches"] = fetches_of(stats);
  backend["probes"] = {{"asked", stats.probes},
                       {"late", stats.probes_late},
                       {"failed", stats.probes_failed},
                       {"families", stats.probe_hits},
                       {"shared", stats.probe_hits_shared},
                       {"answered", operation(stats.probe)}};
  return backend;
}

Object peers_of(const stats::Stats& stats) {
  Object peers = tier_of(stats.peers, "members");
  if (peers.is_null()) return peers;
  peers["servers"] = {{"known", stats.peers.servers}, {"reachable", stats.peers.servers_reachable}};
  return peers;
}

// null unless peers.listen is set.
Object peer_serving_of(const stats::PeerServingStats& serving) {
  if (serving.address.empty()) return nullptr;
  return {
      {"address", serving.address},
      {"peers", serving.peers},
      {"connections",
       {{"open", serving.connections},
        {"accepted", serving.accepted},
        {"refused", serving.refused},
        {"protocol_errors", serving.broken},
        {"stalled", serving.stalled}}},
      {"probes",
       {{"asked", serving.probes}, {"chunks", serving.keys}, {"found", serving.keys_found}}},
      {"gets",
       {{"asked", serving.gets}, {"missed", serving.gets_missed}, {"bytes", serving.sent_bytes}}},
      {"held_bytes", serving.held_bytes}};
}

// RESERVE has these answers beside a grant. Engines go on in each case, without a stored chunk.
Object stores_of(const stats::Stats& stats) {
  return {{"refused_no_space", stats.refused_no_space},
          {"refused_own_prompt", stats.refused_own_prompt},
          {"refused_cap", stats.refused_cap},
          {"refused_commit", stats.refused_commit},
          {"present", stats.reserve_present},
          {"pending", stats.reserve_pending},
          {"disowned", stats.disowned},
          {"asked", stats.grants_asked},
          {"unanswered", stats.grants_unanswered},
          {"reclaimed", stats.grants_reclaimed}};
}

Object verbs_of(const stats::Stats& stats) {
  return {{"prefetch", stats.asked_to_prefetch}, {"pin", stats.asked_to_pin},
          {"unpin", stats.asked_to_unpin},       {"evict", stats.asked_to_evict},
          {"demote", stats.asked_to_demote},     {"keep", stats.asked_to_keep}};
}

// Counts that are 0 on a healthy machine.
Object trust_of(const stats::Stats& stats) {
  return {{"checksum_failures", stats.checksum_failures},
          {"bad_reported", stats.bad_reported},
          {"bad_confirmed", stats.bad_confirmed},
          {"loads_failed", stats.loads_failed},
          {"events_lost", stats.events_lost}};
}

Object model_of(const stats::ModelStats& model) {
  return {{"model", model.model},
          {"requests", model.requests},
          {"requests_hit", model.requests_hit},
          {"requests_short", model.requests_short},
          {"requests_salted", model.requests_salted},
          {"tokens_asked", model.tokens_asked},
          {"tokens_hit", model.tokens_hit},
          {"bytes_loaded", model.bytes_loaded},
          {"bytes_stored", model.bytes_stored},
          {"prefill_tokens", model.prefill_tokens},
          // Seconds as a fraction, as in Prometheus. Nanoseconds would exceed the exact integers of
          // JavaScript.
          {"prefill_seconds", static_cast<double>(model.prefill_ns) * 1e-9},
          {"prefill_saved_seconds", static_cast<double>(model.prefill_saved_ns) * 1e-9}};
}

// Names and reasons come from engines; text_of() replaces bad UTF-8, and larderctl escapes control
// characters.
Object sessions_of(const stats::Stats& stats) {
  Object list = Object::array();
  for (const stats::SessionStats& session : stats.sessions)
    list.push_back({{"number", session.number},
                    {"engine", session.engine},
                    {"namespace", session.namespace_id},
                    {"silent", session.silent},
                    {"holds", session.holds},
                    {"held_bytes", session.held_bytes},
                    {"grants", session.grants},
                    {"granted_bytes", session.granted_bytes},
                    {"transfer",
                     {{"way", session.sidecar_copies ? "sidecar" : "shim"},
                      {"reason", session.transfer_reason},
                      {"why", session.transfer_why},
                      {"copies", session.copies_by},
                      {"registered_bytes", session.registered_bytes}}}});
  return {{"attached", list},
          {"opened", stats.sessions_opened},
          {"ended", stats.sessions_ended},
          {"refused", stats.sessions_refused},
          {"protocol_errors", stats.protocol_errors},
          {"heartbeats_missed", stats.heartbeats_missed}};
}

// The fingerprint is the whole text, so two engines that do not share can be compared line by line.
Object namespaces_of(const stats::Stats& stats) {
  Object list = Object::array();
  for (const stats::NamespaceStats& space : stats.namespaces)
    list.push_back({{"id", space.id},
                    {"model", space.model},
                    {"chunks", space.chunks},
                    {"bytes", space.bytes},
                    {"sessions", space.sessions},
                    {"fingerprint", *space.fingerprint}});
  return list;
}

// A list and no map: several sessions or reasons may give fallbacks of one kind.
Object fallbacks_of(const stats::Stats& stats) {
  Object list = Object::array();
  for (const stats::Fallback& fallback : stats.fallbacks) {
    list.push_back({{"kind", fallback.kind}, {"why", fallback.why}});
    // Only for fallbacks that larderd counts (refused engines); 0 would read as "never happened".
    if (fallback.times > 0) list.back()["times"] = fallback.times;
  }
  return list;
}

}  // namespace

// The whole status is one document, so all counts belong to one moment of the loop.
std::string status_json(const stats::Stats& stats, bool healthy, bool ready) {
  Object models = Object::array();
  for (const stats::ModelStats& model : stats.models) models.push_back(model_of(model));
  return text_of(
      {{"version", stats.version},
       {"pool", stats.pool},
       {"epoch", stats.epoch},
       {"uptime_seconds", static_cast<double>(stats.uptime_ms) * 1e-3},
       {"healthy", healthy},
       {"ready", ready},
       {"memory", memory_of(stats)},
       {"disk", disk_of(stats)},
       {"peers", peers_of(stats)},
       {"peer_serving", peer_serving_of(stats.peer_serving)},
       {"backend", backend_of(stats)},
       {"estimate", estimate_of(stats.estimate)},
       {"decisions", decisions_of(stats)},
       {"models", models},
       {"sessions", sessions_of(stats)},
       {"namespaces", namespaces_of(stats)},
       {"stores", stores_of(stats)},
       {"verb_hashes", verbs_of(stats)},
       {"trust", trust_of(stats)},
       {"operations",
        {{"lookup", operation(stats.lookup)},
         {"load_wait", operation(stats.load_wait)},
         {"load_copy", operation(stats.load_copy)},
         {"store_copy", operation(stats.store_copy)},
         {"reserve", operation(stats.reserve)}}},
       {"transfer",
        {{"stores", stats.transfer.stores},
         {"loads", stats.transfer.loads},
         {"failed", stats.transfer.failed},
         {"bytes", stats.transfer.bytes},
         {"opened", stats.transfer.opened},
         {"open", stats.transfer.open}}},
       {"holds", stats.holds},
       {"held_bytes", stats.held_bytes},
       {"holds_not_counted", {{"age", stats.holds_expired}, {"cap", stats.holds_over_cap}}},
       {"grants", stats.grants},
       {"granted_bytes", stats.granted_bytes},
       {"fallbacks", fallbacks_of(stats)}});
}

std::string dropped_json(std::uint64_t chunks, bool shared) {
  return text_of({{"dropped", chunks}, {"shared", shared}});
}
std::string acted_json(const protocol::ActCounts& acted) {
  return text_of({{"found", acted.found}, {"absent", acted.absent}, {"refused", acted.refused}});
}
std::string trace_json(const stats::TracePage& page) {
  Object requests = Object::array();
  for (const stats::AskedRequest& request : page.requests)
    requests.push_back({{"at_ms", request.at_ms},
                        {"model", request.model},
                        {"tokens", request.tokens},
                        {"tokens_hit", request.tokens_hit},
                        {"block_tokens", request.chunk_tokens},
                        {"block_bytes", request.chunk_bytes},
                        {"hash_ids", request.chunks}});
  // Without indentation, as a page has up to 16,384 numbers.
  const Object all{
      {"now_ms", page.now_ms}, {"next", page.next}, {"lost", page.lost}, {"requests", requests}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}
std::string error_json(const std::string& text) {
  return text_of({{"error", text}});
}

Result<ActRequest> read_act_request(const std::string& body) {
  const auto wrong = [](const std::string& why) {
    return Status(Code::kInvalidArgument,
                  why + R"(: the body is {"namespace": ID, "hashes": [HEX, ...]})");
  };
  // `false`: no exceptions. A malformed body gives a value that is no object.
  const json parsed = json::parse(body, nullptr, false);
  if (!parsed.is_object()) return wrong("this is no JSON object");
  const auto id = parsed.find("namespace"), hashes = parsed.find("hashes");
  if (id == parsed.end() || !id->is_string()) return wrong("namespace must be a text");
  if (hashes == parsed.end() || !hashes->is_array()) return wrong("hashes must be a list");
  // The same bound as for engines, so one request holds up the loop no longer than an engine's ACT.
  // larderctl sends several requests.
  if (hashes->size() > protocol::kMaxKeysPerAct)
    return Status(Code::kOutOfRange,
                  "at most " + std::to_string(protocol::kMaxKeysPerAct) + " hashes in one request");
  ActRequest request;
  request.namespace_id = id->get<std::string>();
  for (const json& text : *hashes) {
    const auto hash = text.is_string()
                          ? protocol::BlockHash::from_hex(text.get_ref<const std::string&>())
                          : std::nullopt;
    if (!hash)
      return wrong("hash " + std::to_string(request.hashes.size() + 1) +
                   " must have 32 hex digits or more");
    request.hashes.push_back(*hash);
  }
  return request;
}

// Text that an engine chose is made valid UTF-8: one bad byte would cost a whole scrape.
std::string valid_utf8(std::string_view text) {
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace larder::pages
