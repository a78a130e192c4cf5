#include "sidecar/tiers/remote/topology/sentinel_watch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/slots.h"

namespace larder::remote {
namespace {

// Sentinels need seconds to agree on a failover, so 0.5 s adds little. While the master is away
// each 50 ms counts, since every operation is refused.
constexpr std::uint64_t kPauseNs = 500'000'000, kHurryNs = 50'000'000;

}  // namespace

SentinelWatch::SentinelWatch(const RemoteOptions& options, const base::Clock& clock, Poller& poller)
    : options_(options), clock_(clock), sentinels_(options.endpoints.size()) {
  const auto nothing = [] {};
  // Error replies of a Sentinel say nothing about the server with the chunks.
  const auto unread = [](Lane, const Reply&, bool) {};
  for (std::size_t i = 0; i < sentinels_.size(); ++i)
    sentinels_[i].links =
        std::make_unique<Links>(options, clock, poller, Kind::kSentinel, options.endpoints[i],
                                Links::Listener{nothing, nothing, unread});
}

void SentinelWatch::turn(bool hurry) {
  pause_ns_ = hurry ? kHurryNs : kPauseNs;
  const std::uint64_t now = clock_.now_ns();
  for (Sentinel& sentinel : sentinels_) {
    sentinel.links->turn();
    if (!sentinel.links->ready()) {
      // An absent Sentinel has no vote: the last word may be from before the failover.
      sentinel.named.reset();
      sentinel.answered = false;
      sentinel.asked_ns = 0;  // ask at once after the reconnect
    } else if (!sentinel.asked && sentinel.asked_ns + pause_ns_ <= now) {
      ask(sentinel);
    }
  }
}

void SentinelWatch::ask(Sentinel& sentinel) {
  Request request;
  request.around.before = format_command(std::array<std::string_view, 3>{
      "SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.sentinel_master});
  request.expect.types = "*";
  // The vector has its final size from the constructor on, so the reference stays valid.
  request.then = [this, &sentinel](const Status& lost, const Reply& reply) {
    sentinel.asked = false;
    if (lost.ok()) answered(sentinel, reply);
  };
  sentinel.asked_ns = clock_.now_ns();
  // One question at a time: a slow Sentinel must not collect questions.
  sentinel.asked = sentinel.links->ask(Lane::kReads, std::move(request)).ok();
}

void SentinelWatch::answered(Sentinel& sentinel, const Reply& reply) {
  sentinel.answered = true;
  // A malformed answer, or nil for an unknown master, is an answer without a vote.
  sentinel.named = parse_named(reply);
}

void SentinelWatch::flush() {
  for (Sentinel& sentinel : sentinels_) sentinel.links->flush();
}

void SentinelWatch::restart(const Status& why) {
  for (Sentinel& sentinel : sentinels_) sentinel.links->restart(why);
}

std::uint64_t SentinelWatch::next_turn_ns() const {
  const std::uint64_t now = clock_.now_ns();
  std::uint64_t next = now + kPauseNs;
  for (const Sentinel& sentinel : sentinels_) {
    next = std::min(next, now + sentinel.links->next_turn_ns());
    if (sentinel.links->ready() && !sentinel.asked)
      next = std::min(next, sentinel.asked_ns + pause_ns_);
  }
  return next <= now ? 0 : next - now;
}

std::vector<SentinelWatch::Named> SentinelWatch::named() const {
  std::vector<Named> all;
  for (const Sentinel& sentinel : sentinels_) {
    if (!sentinel.named) continue;
    const auto found = std::ranges::find(all, *sentinel.named, &Named::endpoint);
    if (found == all.end())
      all.push_back({*sentinel.named, 1});
    else
      ++found->votes;
  }
  // Stable: of equal votes the Sentinel that is first in the configuration decides, the same in
  // every larderd.
  std::ranges::stable_sort(all, std::ranges::greater(), &Named::votes);
  return all;
}

std::size_t SentinelWatch::answering() const {
  return static_cast<std::size_t>(std::ranges::count(sentinels_, true, &Sentinel::answered));
}

Status SentinelWatch::failure() const {
  if (!named().empty()) return {};
  if (answering() != 0)
    return {Code::kFailedPrecondition,
            "backend.url: the Sentinels know no master " + options_.sentinel_master};
  const auto trying = [](const Sentinel& sentinel) { return sentinel.links->failure().ok(); };
  // One connect is still in progress: too early for an error.
  if (std::ranges::any_of(sentinels_, trying)) return {};
  const Status& why = sentinels_.front().links->failure();
  return {why.code(), "no Sentinel answers: " + why.text()};
}

std::uint64_t SentinelWatch::sent_bytes() const {
  std::uint64_t bytes = 0;
  for (const Sentinel& sentinel : sentinels_) bytes += sentinel.links->sent_bytes();
  return bytes;
}

std::uint64_t SentinelWatch::received_bytes() const {
  std::uint64_t bytes = 0;
  for (const Sentinel& sentinel : sentinels_) bytes += sentinel.links->received_bytes();
  return bytes;
}

}  // namespace larder::remote
