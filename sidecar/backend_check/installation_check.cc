#include "sidecar/backend_check/installation_check.h"

#include <algorithm>
#include <utility>

namespace larder::backend_check {
namespace {

// One bound for the whole check: the operator checks again after 30 s.
constexpr std::uint64_t kMostNs = 20'000'000'000;
constexpr std::uint64_t kServersInFull = 8;    // with more servers each server gets less time
constexpr std::uint64_t kShareOfAnswers = 10;  // 50 ms of PINGs suffice for a latency
constexpr std::size_t kMostServers = 256;  // bounds the check against a map with endless masters

class InstallationCheck {
 public:
  InstallationCheck(const remote::RemoteOptions& options, const base::Clock& clock,
                    Measured measured, const std::stop_token& stop)
      : options_(options),
        clock_(clock),
        measured_(measured),
        stop_(stop),
        end_ns_(clock.now_ns() + kMostNs) {
    facts_.mode = options.mode;
  }

  InstallationFacts run() {
    switch (options_.mode) {
      case remote::Mode::kStandalone:
        check({remote::Kind::kStandalone, {options_.host, options_.port, options_.unix_path}});
        break;
      case remote::Mode::kSentinel: check_sentinels(); break;
      case remote::Mode::kCluster: check_cluster(); break;
    }
    return std::move(facts_);
  }

 private:
  ServerFacts ask(ServerToCheck server, std::uint64_t end_ns) const {
    server.stop = stop_;
    server.end_ns = end_ns;
    if (measured_ == Measured::kAnswersAlone) {
      // The operator checks all the time, and must not load a production server with 128 MiB.
      server.rates = false;
      server.share = std::max(server.share, kShareOfAnswers);
    }
    return check_server(options_, server, clock_);
  }
  void check(const ServerToCheck& server) {
    std::size_t slots = 0;
    for (const remote::SlotRange& range : server.slots)
      // Both ends belong to the range: 0-16383 has 16,384 slots.
      slots += range.last - range.first + std::size_t{1};
    facts_.servers.push_back({server.endpoint, ask(server, end_ns_), slots});
  }

  // Sentinels get half of the time at most, so that dead Sentinels leave time for the master.
  void check_sentinels() {
    const std::uint64_t half_ns = clock_.now_ns() + kMostNs / 2;
    for (const remote::Endpoint& endpoint : options_.endpoints)
      facts_.sentinels.push_back({endpoint, ask({remote::Kind::kSentinel, endpoint}, half_ns)});
    // Without any named master there is no server to check. The findings about the Sentinels say
    // why.
    if (const std::optional<remote::Endpoint> master = named_master(facts_))
      check({remote::Kind::kMaster, *master});
  }

  void check_cluster() {
    std::optional<std::vector<remote::SlotRange>> map;
    // One node with a map suffices: all nodes of a Cluster share one view.
    for (const remote::Endpoint& endpoint : options_.endpoints) {
      ServerFacts facts = ask({remote::Kind::kNode, endpoint}, end_ns_);
      map = facts.failure.ok() ? facts.map : std::nullopt;
      if (map) break;
      // Findings about such nodes are warnings while another node gives a map (add_failure()).
      facts_.mute_nodes.push_back({endpoint, std::move(facts)});
    }
    if (!map) return;
    facts_.unserved_slots = remote::kSlots;
    std::vector<ServerToCheck> masters;
    for (const remote::SlotRange& range : *map) {
      // A hostile map may name a slot twice: the subtraction must not wrap.
      facts_.unserved_slots -=
          std::min<std::size_t>(range.last - range.first + std::size_t{1}, facts_.unserved_slots);
      auto found = std::ranges::find(masters, range.master, &ServerToCheck::endpoint);
      // The slots of further masters still count as served.
      if (found == masters.end() && masters.size() == kMostServers) continue;
      if (found == masters.end())
        found = masters.insert(masters.end(), {remote::Kind::kNode, range.master});
      found->slots.push_back(range);
    }
    // 8 masters take the full 20 s together; 16 masters take half the time each.
    for (ServerToCheck& master : masters) {
      master.share = masters.size() / kServersInFull + 1;
      check(master);
    }
  }

  const remote::RemoteOptions& options_;
  const base::Clock& clock_;
  const Measured measured_;
  const std::stop_token& stop_;
  const std::uint64_t end_ns_;
  InstallationFacts facts_;
};

}  // namespace

InstallationFacts check_installation(const remote::RemoteOptions& options, const base::Clock& clock,
                                     Measured measured, const std::stop_token& stop) {
  return InstallationCheck(options, clock, measured, stop).run();
}

std::optional<remote::Endpoint> named_master(const InstallationFacts& facts) {
  // The votes are counted because Sentinels disagree for seconds during a failover.
  std::optional<remote::Endpoint> most;
  std::ptrdiff_t votes = 0;
  for (const CheckedServer& sentinel : facts.sentinels) {
    const auto same = [&](const CheckedServer& other) {
      return other.facts.named == sentinel.facts.named;
    };
    const std::ptrdiff_t count =
        sentinel.facts.named ? std::ranges::count_if(facts.sentinels, same) : 0;
    if (count <= votes) continue;
    votes = count;
    most = sentinel.facts.named;
  }
  return most;
}

}  // namespace larder::backend_check
