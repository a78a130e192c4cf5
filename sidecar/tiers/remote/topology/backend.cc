#include "sidecar/tiers/remote/topology/backend.h"

#include <algorithm>
#include <map>
#include <utility>

namespace larder::remote {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;

}  // namespace

Backend::Backend(const RemoteOptions& options, const base::Clock& clock, Listener listener)
    : options_(options),
      clock_(clock),
      listener_(std::move(listener)),
      nodes_(options, clock, poller_,
             {listener_.ready, listener_.other_life,
              [this](Node& node, Lane lane, const Reply& reply, bool chunk) { health_.answered(node, lane, reply, chunk); }}),
      health_(options, clock, nodes_, slots_, [this] { doubt(); }),
      gates_(options, clock, nodes_, slots_, health_) {
  map_wait_ns_ = options.retry_ms * kNsPerMs;
  if (options.mode == Mode::kSentinel) master_.emplace(options, clock, poller_, nodes_, listener_.other_life);
  if (options.mode == Mode::kStandalone) nodes_.add(Kind::kStandalone, {options.host, options.port, options.unix_path});
}

void Backend::turn(std::uint64_t timeout_ns) {
  poller_.wait(std::min(timeout_ns, next_turn_ns()));
  nodes_.turn();
  const std::uint64_t now = clock_.now_ns();
  if (master_) master_->maintain(now);
  if (cluster()) maintain_cluster(now);
  gates_.maintain(now);
  health_.maintain(now);
}

void Backend::flush() {
  nodes_.flush();
  if (master_) master_->flush();
}

std::uint64_t Backend::next_turn_ns() const {
  const std::uint64_t now = clock_.now_ns();
  std::uint64_t wait = std::min(options_.ping_ms * kNsPerMs, nodes_.next_turn_ns());
  wait = std::min(wait, std::min(health_.next_ns(now), gates_.next_ns(now)) - now);
  if (master_) wait = std::min(wait, master_->sentinels().next_turn_ns());
  if (!cluster()) return wait;
  if (nodes_.empty()) return 0;
  std::uint64_t next = now + wait;
  const auto up = [](const std::unique_ptr<Node>& node) { return node->links->ready(); };
  if (!map_asked_ && std::ranges::any_of(nodes_, up)) next = std::min(next, map_due_ns_);
  for (const Parked& parked : parked_) next = std::min(next, std::max(parked.from_ns, now + kNsPerMs));
  return next <= now ? 0 : next - now;
}

Status Backend::failure() const {
  if (nodes_.empty()) return master_ ? master_->sentinels().failure() : Status();
  if (!map_failure_.ok()) return map_failure_;
  Status first;
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (map_known_ && !node->serves) continue;
    if (node->links->failure().ok()) return {};  // the connect is in progress
    if (first.ok()) first = node->links->failure();
  }
  return first;
}

std::size_t Backend::masters() const {
  if (!cluster()) return nodes_.size();
  return static_cast<std::size_t>(std::ranges::count_if(nodes_, [](const std::unique_ptr<Node>& node) { return node->serves; }));
}

Status Backend::ask(Lane lane, std::string_view key, Request request) {
  if (!cluster()) return ask_master(0, lane, std::move(request));
  const auto routed = std::make_shared<Routed>();
  routed->lane = lane;
  routed->slot = slot_of(key);
  routed->request = std::move(request);
  if (Node* const node = slots_.master(routed->slot); node != nullptr) return send(routed, *node, false);
  doubt();
  return {Code::kUnavailable, "no node of the Cluster serves this key"};
}

Status Backend::ask_master(std::size_t number, Lane lane, Request request) {
  for (const std::unique_ptr<Node>& node : nodes_)
    if (nodes_.counts(*node) && number-- == 0) return node->links->ask(lane, std::move(request));
  return {Code::kUnavailable, "no connection to the server"};
}

std::vector<std::vector<std::string_view>> Backend::together(const std::vector<std::string>& keys) const {
  std::map<std::uint16_t, std::vector<std::string_view>> groups;
  for (const std::string& key : keys) groups[cluster() ? slot_of(key) : 0].push_back(key);
  std::vector<std::vector<std::string_view>> all;
  for (auto& [slot, group] : groups) all.push_back(std::move(group));
  return all;
}

void Backend::doubt() {
  if (master_) master_->doubt();
  map_due_ns_ = std::min(map_due_ns_, map_asked_ns_ + map_wait_ns_);
}

Backend::Troubles Backend::troubles() const {
  Troubles troubles = health_.troubles();
  troubles.chunks = gates_.refused_chunks();
  return troubles;
}

void Backend::cancel(std::uint64_t owner) {
  std::erase_if(parked_, [owner](const Parked& parked) { return parked.routed->request.owner == owner; });
  nodes_.cancel(owner);
}

void Backend::restart(const Status& why) {
  nodes_.restart(why);
  for (const Parked& parked : std::exchange(parked_, {}))
    if (parked.routed->request.then) parked.routed->request.then(why, {});
}

std::uint64_t Backend::sent_bytes() const {
  return nodes_.sent_bytes() + (master_ ? master_->sentinels().sent_bytes() : 0);
}

std::uint64_t Backend::received_bytes() const {
  return nodes_.received_bytes() + (master_ ? master_->sentinels().received_bytes() : 0);
}

}  // namespace larder::remote
