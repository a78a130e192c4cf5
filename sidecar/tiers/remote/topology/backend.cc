#include "sidecar/tiers/remote/topology/backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sidecar/base/time_units.h"

namespace larder::remote {
namespace {

using base::kNsPerMs;

}  // namespace

Backend::Backend(const RemoteOptions& options, const base::Clock& clock, Listener listener)
    : options_(options),
      clock_(clock),
      listener_(std::move(listener)),
      nodes_(options, clock, poller_,
             {listener_.ready, listener_.other_life,
              [this](Node& node, Lane lane, const Reply& reply, bool chunk) {
                health_.answered(node, lane, reply, chunk);
              }}),
      health_(options, clock, nodes_, slots_, [this] { doubt(); }),
      gates_(options, clock, nodes_, slots_, health_),
      routing_(options, clock, nodes_, slots_, listener_.other_life) {
  // With Sentinels and in a Cluster the nodes are unknown now. They come with the first answers.
  if (options.mode == Mode::kSentinel)
    master_.emplace(options, clock, poller_, nodes_, listener_.other_life);
  if (options.mode == Mode::kStandalone)
    nodes_.add(Kind::kStandalone, {options.host, options.port, options.unix_path});
}

void Backend::turn(std::uint64_t timeout_ns) {
  // The wait ends with the first due ping, probe or retry, even if the caller has time.
  poller_.wait(std::min(timeout_ns, next_turn_ns()));
  nodes_.turn();
  // Roles and routes change only after the callbacks of all replies: a callback must not find its
  // node removed.
  const std::uint64_t now = clock_.now_ns();
  if (master_) master_->maintain(now);
  if (cluster()) routing_.maintain(now);
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
  // The first turn makes the configured nodes.
  if (nodes_.empty()) return 0;
  const std::uint64_t next = std::min(now + wait, routing_.next_ns(now));
  return next <= now ? 0 : next - now;
}

Status Backend::failure() const {
  if (nodes_.empty()) return master_ ? master_->sentinels().failure() : Status();
  if (!routing_.map_failure().ok()) return routing_.map_failure();
  Status first;
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (routing_.map_known() && !node->serves) continue;
    // A server that is just being connected is no failure yet: waiting operations may still
    // succeed.
    if (node->links->failure().ok()) return {};  // the connect is in progress
    if (first.ok()) first = node->links->failure();
  }
  return first;
}

std::size_t Backend::masters() const {
  if (!cluster()) return nodes_.size();
  return static_cast<std::size_t>(std::ranges::count_if(
      nodes_, [](const std::unique_ptr<Node>& node) { return node->serves; }));
}

Status Backend::ask(Lane lane, std::string_view key, Request request) {
  if (!cluster()) return ask_master(0, lane, std::move(request));
  return routing_.ask(lane, key, std::move(request));
}

bool Backend::ask_replica(std::string_view key, Request& request) {
  if (!cluster()) return false;
  Node* const node = slots_.replica(slot_of(key));
  // A replica is an optimization: every doubt sends the part to the master.
  if (node == nullptr || !node->links->ready() || !node->health.well())
    return false;  // mutation: replica-refused
  node->used_ns = clock_.now_ns();
  return node->links->ask(Lane::kReads, std::move(request)).ok();
}

Status Backend::ask_master(std::size_t number, Lane lane, Request request) {
  for (const std::unique_ptr<Node>& node : nodes_)
    if (nodes_.counts(*node) && number-- == 0) return node->links->ask(lane, std::move(request));
  return {Code::kUnavailable, "no connection to the server"};
}

std::vector<std::vector<std::string_view>> Backend::together(
    const std::vector<std::string>& keys) const {
  std::map<std::uint16_t, std::vector<std::string_view>> groups;
  // A Cluster refuses a command over keys of several slots (CROSSSLOT).
  for (const std::string& key : keys) groups[cluster() ? slot_of(key) : 0].push_back(key);
  std::vector<std::vector<std::string_view>> all;
  for (auto& [slot, group] : groups) all.push_back(std::move(group));
  return all;
}

void Backend::doubt() {
  // An error may show a changed role in either mode; the other call has no effect.
  if (master_) master_->doubt();
  routing_.doubt();
}

Backend::Troubles Backend::troubles() const {
  Troubles troubles = health_.troubles();
  troubles.chunks = gates_.refused_chunks();
  return troubles;
}

void Backend::cancel(std::uint64_t owner) {
  routing_.cancel(owner);
  nodes_.cancel(owner);
}

void Backend::restart(const Status& why) {
  nodes_.restart(why);
  routing_.restart(why);
}

std::uint64_t Backend::sent_bytes() const {
  return nodes_.sent_bytes() + (master_ ? master_->sentinels().sent_bytes() : 0);
}

std::uint64_t Backend::received_bytes() const {
  return nodes_.received_bytes() + (master_ ? master_->sentinels().received_bytes() : 0);
}

}  // namespace larder::remote
