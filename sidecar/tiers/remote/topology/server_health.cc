#include "sidecar/tiers/remote/topology/server_health.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/write_gate.h"

namespace larder::remote {

void ServerHealth::answered(Node& node, Lane lane, const Reply& reply, bool chunk) {
  if (reply.kind != Reply::Kind::kError) {
    node.health.clear(lane == Lane::kWrites ? Health::kWrites : Health::kReads);
    return;
  }
  const ErrorMeaning& meaning = meaning_of(reply.text);
  // WriteGate handles the refusal of one chunk: smaller chunks may still fit.
  if (chunk && lane == Lane::kWrites && refuses_chunk(meaning)) return;
  note_error(node, meaning, lane);
}

void ServerHealth::note_error(Node& node, const ErrorMeaning& meaning, Lane lane) {
  // An error reply fails its own command. Only some replies show a sick server, and then the
  // server is refused until a probe is answered.
  if (meaning.trouble == Trouble::kNone) return;
  // The server has become a replica, so there is another master.
  if (meaning.code == "READONLY" || meaning.code == "MASTERDOWN") doubt_();
  const bool redirection =
      meaning.code == "MOVED" || meaning.code == "ASK" || meaning.code == "CROSSSLOT";
  if (cluster() && redirection) return;
  // Only a new handshake ends this fault: the handshake reads the password file again and checks
  // the mode.
  const bool login = meaning.trouble == Trouble::kDenied || meaning.trouble == Trouble::kWrongMode;
  node.denied = node.denied || login;
  const bool of_lane = login || meaning.trouble == Trouble::kForbidden;
  const bool puts_alone = meaning.trouble == Trouble::kWrites || (of_lane && lane == Lane::kWrites);
  if (node.health.set(puts_alone ? Health::kWrites : Health::kReads, std::string(meaning.text)))
    node.health.retry(clock_.now_ns());  // starts the wait before the first attempt
}

void ServerHealth::maintain(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = *nodes_[i];
    if (!awaits_probe(node) || !node.health.retry(now_ns)) continue;
    // A probe over the old connection would be refused for ever.
    if (node.denied)
      node.links->restart({Code::kPermissionDenied, node.health.state().reason});
    else
      probe(node);
  }
}

bool ServerHealth::awaits_probe(const Node& node) const {
  return !node.health.well() && !node.probing && (nodes_.counts(node) || node.stands_by) &&
         node.links->ready();
}

// Probes reads first: if reads fail, writes fail too.
void ServerHealth::probe(Node& node) {
  const std::optional<std::string> key = probe_key_of(node);
  if (!key) return;
  const Lane lane = node.health.is(Health::kReads) ? Lane::kReads : Lane::kWrites;
  const bool write = lane == Lane::kWrites;
  Request request;
  request.around.before =
      write ? format_command(std::array<std::string_view, 5>{"SET", *key, "1", "PX", "1000"})
            : format_command(std::array<std::string_view, 4>{"GETRANGE", *key, "0", "0"});
  request.expect.types = write ? "+" : "$";
  request.then = [this, &node, lane](const Status& lost, const Reply& reply) {
    node.probing = false;
    if (lost.ok())
      answered(node, lane, reply,
               false);  // a lost connection reports itself; a redirection says nothing
  };
  // One probe at a time: a reply may take as long as `answer_ms`.
  node.probing = node.links->ask(lane, std::move(request)).ok();
}

// In a Cluster: a key in a slot of the node. A few attempts find one, except for a node with very
// few slots.
std::optional<std::string> ServerHealth::probe_key_of(const Node& node) const {
  if (!cluster()) return probe_key(options_.prefix);
  constexpr unsigned kMostTries = 1 << 15;
  for (unsigned number = 0; number < kMostTries; ++number)
    if (std::string key = probe_key(options_.prefix) + ":" + std::to_string(number);
        slots_.leads_to(node, slot_of(key)))
      return key;
  return std::nullopt;
}

std::string ServerHealth::trouble_of(const Node& node, Lane lane) const {
  if (!node.links->ready() && !node.links->failure().ok())
    return "no connection: " + node.links->failure().to_string();
  if (node.health.is(Health::kReads)) return node.health.reason(Health::kReads);
  return lane == Lane::kWrites ? node.health.reason(Health::kWrites) : "";
}

Status ServerHealth::refusal(std::string_view key, Lane lane) const {
  if (!cluster()) return {};
  const Node* const node = slots_.master(slot_of(key));
  // Refused before any byte is sent, as at a sick node: the chunk would be incomplete.
  if (node == nullptr) return {Code::kUnavailable, "no node of the Cluster serves this key"};
  const std::string why = trouble_of(*node, lane);
  return why.empty() ? Status()
                     : Status(Code::kUnavailable, "the key's node of the Cluster: " + why);
}

std::uint64_t ServerHealth::next_ns(std::uint64_t now_ns) const {
  std::uint64_t next = UINT64_MAX;
  for (const std::unique_ptr<Node>& node : nodes_)
    if (awaits_probe(*node)) next = std::min(next, std::max(node->health.next_ns(), now_ns));
  return next;
}

ServerHealth::Troubles ServerHealth::troubles() const {
  std::size_t all = 0;
  std::array<std::size_t, 2> bad{};
  std::array<std::string, 2> why;
  const Node* first = nullptr;
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (!nodes_.counts(*node)) continue;
    ++all;
    if (node->health.well() && node->links->ready()) continue;
    for (const Lane lane : {Lane::kReads, Lane::kWrites}) {
      const auto at = static_cast<std::size_t>(lane);
      std::string reason = trouble_of(*node, lane);
      if (reason.empty()) continue;
      first = first == nullptr ? node.get() : first;
      ++bad[at];
      // A fault of a connected node is preferred: failure() reports a missing connection.
      if (why[at].empty() || node->links->ready()) why[at] = std::move(reason);
    }
  }
  Troubles troubles;
  // The tier is degraded only when all servers are sick. One sick server costs the chunks with
  // keys at that server.
  if (bad[0] != 0 && bad[0] == all) troubles.reads = why[0];  // mutation: cluster-one-bad
  if (bad[1] != 0 && bad[1] == all) troubles.writes = why[1];
  for (const Lane lane :
       {Lane::kReads, Lane::kWrites}) {  // a partial fault of writes replaces one of reads
    const std::size_t some = bad[static_cast<std::size_t>(lane)];
    if (some == 0 || some == all) continue;
    troubles.part = std::to_string(some) + " of " + std::to_string(all) +
                    " masters of the Cluster" +
                    (bad[0] == 0 ? " take no writes, " : " are away, ") +
                    text_of(first->links->endpoint()) + ": " + trouble_of(*first, lane);
  }
  return troubles;
}

}  // namespace larder::remote
