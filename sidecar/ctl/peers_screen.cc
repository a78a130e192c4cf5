#include "sidecar/ctl/peers_screen.h"

#include "sidecar/base/text.h"
#include "sidecar/ctl/screen_lines.h"

namespace larder::ctl {
namespace {

// Two directions: the peers that this larderd asks, and the peers that ask here. Either may be off.
std::string asked(const Snapshot& now) {
  const TierState& peers = now.peers;
  if (peers.place.empty()) return "";
  return line("members", peers.place) +
         line("reachable", base::grouped(peers.servers_reachable) + " of " +
                               base::grouped(peers.servers) +
                               (peers.reason.empty() ? "" : ", DEGRADED: " + peers.reason)) +
         line("brought up",
              base::plural(peers.got, "chunk") + ", " + base::bytes_text(peers.got_bytes)) +
         line("failed", base::grouped(peers.failed) + " reads");
}

// "held now": chunks that larderd keeps in memory while other larderd read them.
std::string served(const PeerServing& serving) {
  if (serving.address.empty()) return "";
  return line("served at", serving.address) +
         line("served", base::plural(serving.peers, "peer") + " over " +
                            base::plural(serving.connections, "connection") + ", " +
                            base::grouped(serving.refused) + " refused") +
         line("asked about", base::plural(serving.keys, "chunk") + ", " +
                                 base::grouped(serving.keys_found) + " here") +
         line("sent", base::bytes_text(serving.sent_bytes) + ", " +
                          base::bytes_text(serving.held_bytes) + " held now");
}

}  // namespace

std::string peers_lines(const Snapshot& now) {
  const std::string lines = asked(now) + served(now.peer_serving);
  return lines.empty() ? "" : "\nPeers\n" + lines;
}

std::string peers_screen(const Snapshot& now) {
  const std::string lines = peers_lines(now);
  return headline(now) +
         // The answer to an empty screen is a setting, so the screen names both keys.
         (lines.empty() ? "\nPeers           none: set peers.listen and peers.members\n" : lines);
}

}  // namespace larder::ctl
