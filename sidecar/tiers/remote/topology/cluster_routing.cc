#include "sidecar/tiers/remote/topology/cluster_routing.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/base/time_units.h"
#include "sidecar/tiers/remote/resp/error_reply.h"

namespace larder::remote {
namespace {

using base::kNsPerMs;
constexpr std::uint64_t kCalmNs =
    5'000'000'000;                              // between two requests for the map without a fault
constexpr std::uint64_t kAgainNs = 20'000'000;  // before a command is sent again after TRYAGAIN
// An unused node without slots is removed after this time.
constexpr std::uint64_t kUnusedNs = 5'000'000'000;

}  // namespace

ClusterRouting::ClusterRouting(const RemoteOptions& options, const base::Clock& clock,
                               NodeSet& nodes, SlotMap& slots, std::function<void()> other_life)
    : options_(options),
      clock_(clock),
      nodes_(nodes),
      slots_(slots),
      other_life_(std::move(other_life)),
      map_wait_ns_(options.retry_ms * kNsPerMs) {}

Status ClusterRouting::ask(Lane lane, std::string_view key, Request request) {
  // Kept until the reply, because a redirection sends the same command to another node. The
  // callback owns it.
  const auto routed = std::make_shared<Routed>();
  routed->lane = lane;
  routed->slot = slot_of(key);
  routed->request = std::move(request);
  if (Node* const node = slots_.master(routed->slot); node != nullptr)
    return send(routed, *node, false);
  doubt();
  return {Code::kUnavailable, "no node of the Cluster serves this key"};
}

void ClusterRouting::doubt() {
  // A burst of MOVED replies leads to one question, not before the pause since the last one.
  map_due_ns_ = std::min(map_due_ns_, map_asked_ns_ + map_wait_ns_);
}

void ClusterRouting::cancel(std::uint64_t owner) {
  std::erase_if(parked_,
                [owner](const Parked& parked) { return parked.routed->request.owner == owner; });
}

void ClusterRouting::restart(const Status& why) {
  for (const Parked& parked : std::exchange(parked_, {}))
    if (parked.routed->request.then) parked.routed->request.then(why, {});
}

std::uint64_t ClusterRouting::next_ns(std::uint64_t now_ns) const {
  std::uint64_t next = UINT64_MAX;
  const auto up = [](const std::unique_ptr<Node>& node) { return node->links->ready(); };
  if (!map_asked_ && std::ranges::any_of(nodes_, up)) next = std::min(next, map_due_ns_);
  for (const Parked& parked : parked_)
    next = std::min(next, std::max(parked.from_ns, now_ns + kNsPerMs));
  return next;
}

Status ClusterRouting::send(const RoutedPtr& routed, Node& node, bool asking) {
  routed->node = &node;
  node.used_ns = clock_.now_ns();
  // A node just named by MOVED has no connection yet. The first commands wait for the connect
  // instead of failing.
  if (!node.links->ready()) {
    doubt();
    const Status& why = node.links->failure();
    if (!why.ok()) return {Code::kUnavailable, "a node of the Cluster is away: " + why.text()};
    park(routed, asking, 0);
    return {};
  }
  Request request;
  // Copied, except for the callback: the original is needed again for a redirection.
  request.around = routed->request.around;
  request.body = routed->request.body;
  request.expect = routed->request.expect;
  request.owner = routed->request.owner;
  request.tells = routed->request.tells;
  request.writer = routed->request.writer;
  request.then = [this, routed](const Status& lost, Reply reply) {
    came(routed, lost, std::move(reply));
  };
  return node.links->ask(routed->lane, std::move(request), asking);
}

void ClusterRouting::came(const RoutedPtr& routed, const Status& lost, Reply reply) {
  // A lost connection often is the first sign of a failover.
  if (!lost.ok()) doubt();
  if (lost.ok() && reply.kind == Reply::Kind::kError && redirected(routed, reply.text)) return;
  if (routed->request.then) routed->request.then(lost, std::move(reply));
}

// Follows a redirection. False: the error is no redirection. A command with too many redirections
// fails like a command on a lost connection.
bool ClusterRouting::redirected(const RoutedPtr& routed, const std::string& error) {
  using What = Redirection::What;
  const Redirection redirection = parse_redirection(error, routed->node->links->endpoint().host);
  if (meaning_of(error).code == "CLUSTERDOWN" || redirection.what == What::kMoved) doubt();
  if (redirection.what == What::kNone) return false;
  Status failed;
  if (++routed->hops > kMostHops) {
    failed = {Code::kUnavailable, "the Cluster sends a command from one node to the next"};
  } else if (redirection.what == What::kAgain) {
    park(routed, false, clock_.now_ns() + kAgainNs);
  } else {
    Node* const node = redirection.to.port == 0 ? nullptr : nodes_.at(redirection.to);
    if (node != nullptr && redirection.what == What::kMoved && slots_.move(routed->slot, node)) {
      // A node counts as a master from the first MOVED on, before the next map names it.
      node->serves = true;
      nodes_.changed();
    }
    failed = node == nullptr
                 ? Status(Code::kUnavailable, "the Cluster redirects a command to an unknown node")
                 : send(routed, *node, redirection.what == What::kAsk);
  }
  if (!failed.ok() && routed->request.then) routed->request.then(failed, {});
  return true;
}

void ClusterRouting::park(const RoutedPtr& routed, bool asking, std::uint64_t from_ns) {
  parked_.push_back({routed, asking, from_ns, clock_.now_ns() + options_.answer_ms * kNsPerMs});
}

// REQUIRES: not within a callback.
void ClusterRouting::send_parked(std::uint64_t now_ns) {
  // send() may park the command again, so the loop works on the former list.
  for (const Parked& parked : std::exchange(parked_, {})) {
    Node& node = *parked.routed->node;
    const Status& away = node.links->failure();
    Status failed;
    if (now_ns >= parked.until_ns)
      failed = {Code::kUnavailable, "a node of the Cluster does not answer"};
    else if (now_ns < parked.from_ns || (!node.links->ready() && away.ok()))
      parked_.push_back(parked);
    else
      failed = send(parked.routed, node, parked.asking);
    if (!failed.ok() && parked.routed->request.then) parked.routed->request.then(failed, {});
  }
}

void ClusterRouting::maintain(std::uint64_t now_ns) {
  // No known node is reachable: the configured names may have other addresses now.
  if (!nodes_.ready())
    for (const Endpoint& seed : options_.endpoints) nodes_.at(seed);
  if (std::ranges::any_of(nodes_, [](const std::unique_ptr<Node>& node) {
        return node->serves && !node->links->ready();
      }))
    doubt();
  if (!map_asked_ && now_ns >= map_due_ns_) ask_map(now_ns);
  send_parked(now_ns);
  retire_nodes(now_ns);
}

// Asks one node after the other for the map: any node may be wrong or cut off. While a serving node
// is ready, only serving nodes are asked: a node that left the Cluster may belong to another
// Cluster now.
void ClusterRouting::ask_map(std::uint64_t now_ns) {
  const bool those_that_serve = nodes_.ready();
  for (std::size_t tried = 0; tried < nodes_.size(); ++tried) {
    const Node& node = *nodes_[++map_turn_ % nodes_.size()];
    Links& links = *node.links;
    if (!links.ready() || (those_that_serve && !node.serves)) continue;
    Request request;
    request.around.before = format_command(std::array<std::string_view, 2>{"CLUSTER", "SLOTS"});
    request.expect.types = "*";
    request.expect.long_reply = true;
    request.then = [this, asked = links.endpoint().host](const Status& lost, const Reply& reply) {
      map_came(asked, lost, reply);
    };
    map_asked_ns_ = now_ns;
    map_asked_ = links.ask(Lane::kReads, std::move(request)).ok();
    return;
  }
}

// During a fault the map is requested again soon, with doubling pauses.
void ClusterRouting::map_came(const std::string& asked, const Status& lost, const Reply& reply) {
  map_asked_ = false;
  map_wait_ns_ = std::min(2 * map_wait_ns_, options_.most_retry_ms * kNsPerMs);
  map_due_ns_ = map_asked_ns_ + map_wait_ns_;
  if (!lost.ok()) return;
  if (reply.kind == Reply::Kind::kError) {
    map_failure_ = status_of(meaning_of(reply.text));
    return;
  }
  const std::optional<std::vector<SlotRange>> map = parse_slots(reply, asked);
  if (!map)
    map_failure_ = {Code::kDataLoss, "a node answers CLUSTER SLOTS with a malformed map"};
  else if (map->empty())
    map_failure_ = {Code::kUnavailable, "the Cluster serves no keys yet"};
  else
    adopt(*map);
}

void ClusterRouting::adopt(const std::vector<SlotRange>& map) {
  SlotMap::Slots slots{};
  for (const SlotRange& range : map) {
    Node* const node = nodes_.at(range.master);
    // Of overlapping ranges the last one wins; a wrong one is corrected by MOVED.
    for (std::size_t slot = range.first; slot <= range.last; ++slot) slots[slot] = node;
  }
  map_failure_ = {};
  std::vector<Node*> former;
  for (const std::unique_ptr<Node>& node : nodes_)
    if (std::exchange(node->serves, false)) former.push_back(node.get());
  bool complete = true;
  for (Node* const node : slots) {
    complete = complete && node != nullptr && node->links->ready();
    if (node != nullptr) node->serves = true;
  }
  // A master without any slot is the sign of a failover. Slots that merely move keep their chunks.
  const bool lost_one = std::ranges::any_of(former, [](const Node* node) { return !node->serves; });
  if (complete) {
    map_wait_ns_ = options_.retry_ms * kNsPerMs;
    map_due_ns_ = map_asked_ns_ + kCalmNs;
  }
  if (options_.read_replicas) adopt_replicas(map);
  // An unchanged map must not start running drops again, see NodeSet::version().
  if (!slots_.replace(slots) && map_known_) return;
  map_known_ = true;
  nodes_.changed();
  // A replica took over, and may lack stored chunks.
  if (lost_one) other_life_();
}

// Deals the slot ranges to replicas: several replicas of a master share its ranges.
void ClusterRouting::adopt_replicas(const std::vector<SlotRange>& map) {
  for (const std::unique_ptr<Node>& node : nodes_) node->stands_by = false;
  slots_.clear_replicas();
  std::size_t turn = 0;
  for (const SlotRange& range : map) {
    if (range.replicas.empty()) continue;
    Node* const node = nodes_.at(range.replicas[turn++ % range.replicas.size()], Kind::kReplica);
    if (node == nullptr) continue;
    node->stands_by = true;
    slots_.add_replica(range, node);
  }
}

void ClusterRouting::retire_nodes(std::uint64_t now_ns) {
  // Without any connection the known nodes may be the only way back into the Cluster.
  if (!nodes_.ready()) return;
  // Backwards, because remove() shifts the nodes behind.
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    const Node* const node = nodes_[i].get();
    if (node->serves || node->stands_by || now_ns < node->used_ns + kUnusedNs) continue;
    if (std::ranges::none_of(parked_,
                             [node](const Parked& parked) { return parked.routed->node == node; }))
      nodes_.remove(i, {Code::kUnavailable, "the node serves no slots any more"});
  }
}

}  // namespace larder::remote
