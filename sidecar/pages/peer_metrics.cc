#include "sidecar/pages/peer_metrics.h"

namespace larder::pages {

// Without peers all rows show zeros, as every family exists from the start.
void add_peers(Families& out, const stats::Stats& stats) {
  const stats::PeerServingStats& serving = stats.peer_serving;
  out.begin(MetricType::kGauge, "peer_members",
            "Other larderd of the pool that this larderd may ask, by whether it reaches them.");
  out.add(stats.peers.servers_reachable, {{"state", "reachable"}});
  // Both numbers come from one snapshot of the tier, so the difference is never negative.
  out.add(stats.peers.servers - stats.peers.servers_reachable, {{"state", "unreachable"}});
  out.gauge("peer_served_members", "Other larderd with a connection to this larderd.",
            serving.peers);
  out.gauge("peer_served_connections", "Connections of other larderd to this larderd.",
            serving.connections);
  out.gauge("peer_held_bytes", "Bytes of chunks that larderd keeps in memory for other larderd.",
            serving.held_bytes);
  // "stalled" and "protocol_error" point at a peer or the network; "refused" at a full table or
  // another pool.
  out.begin(MetricType::kCounter, "peer_connections_total",
            "Connections to the port for peers, by end or acceptance.");
  out.add(serving.accepted, {{"event", "accepted"}});
  out.add(serving.refused, {{"event", "refused"}});
  out.add(serving.broken, {{"event", "protocol_error"}});
  out.add(serving.stalled, {{"event", "stalled"}});
  out.counter("peer_probes_total", "Questions of other larderd about chunks, of many chunks each.",
              serving.probes);
  out.begin(MetricType::kCounter, "peer_probed_chunks_total",
            "Chunks that other larderd asked about, by whether they were in memory.");
  out.add(serving.keys_found, {{"result", "found"}});
  // Prometheus sums "found" and "absent" to all chunks; a third row for the sum would count twice.
  out.add(serving.keys - serving.keys_found, {{"result", "absent"}});
  out.begin(MetricType::kCounter, "peer_served_chunks_total",
            "Chunks that other larderd read from this larderd, by result.");
  out.add(serving.gets, {{"result", "asked"}});
  out.add(serving.gets_missed, {{"result", "missed"}});
  out.counter("peer_served_bytes_total", "Bytes of chunks sent to other larderd.",
              serving.sent_bytes);
}

}  // namespace larder::pages
