#include "sidecar/backend_check/installation_diagnostics.h"

#include <algorithm>

#include "sidecar/backend_check/backend_failures.h"
#include "sidecar/base/text.h"

namespace larder::backend_check {
namespace {

using remote::Kind;
using remote::Mode;
using Step = ServerFacts::Step;

// Sentinels and nodes first, then servers, then the installation as a whole. The stable sort keeps
// this order within one weight.
class Findings {
 public:
  Findings(const config::BackendConfig& backend, const InstallationFacts& facts,
           unsigned processors)
      : backend_(backend), facts_(facts), processors_(processors) {}

  std::vector<Diagnostic> all() {
    const bool usable = std::ranges::any_of(facts_.servers, [](const CheckedServer& server) {
      return server.facts.ended == Step::kNone;
    });
    const bool found = !facts_.servers.empty();
    for (const CheckedServer& sentinel : facts_.sentinels)
      add_failure(sentinel, remote::Kind::kSentinel, found);
    for (const CheckedServer& node : facts_.mute_nodes)
      add_failure(node, remote::Kind::kNode, found);
    for (const CheckedServer& server : facts_.servers) {
      // A Cluster with one dead master still serves the rest: usable, with a warning.
      const bool away = server.facts.ended == Step::kConnect && usable;
      for (Diagnostic& finding : findings_of({backend_, server.facts, processors_, kind()})) {
        if (away && finding.weight == Weight::kUnusable) finding.weight = Weight::kWarning;
        add(std::move(finding), server);
      }
      if (server.facts.ended == Step::kNone) add_of_mode(server);
    }
    if (facts_.mode == remote::Mode::kSentinel) add_of_sentinels();
    if (facts_.mode == remote::Mode::kCluster && found) add_of_cluster();
    std::ranges::stable_sort(all_, {}, &Diagnostic::weight);
    return std::move(all_);
  }

 private:
  remote::Kind kind() const {
    return facts_.mode == remote::Mode::kCluster    ? remote::Kind::kNode
           : facts_.mode == remote::Mode::kSentinel ? remote::Kind::kMaster
                                                    : remote::Kind::kStandalone;
  }
  void add(Diagnostic finding, const CheckedServer& server) {
    const std::string where = remote::text_of(server.endpoint);
    // Equal findings of several servers become one with several addresses: a Cluster has one
    // configuration, mostly.
    const auto same = std::ranges::find_if(all_, [&](const Diagnostic& other) {
      return other.weight == finding.weight && other.id == finding.id &&
             other.what == finding.what && other.remedy == finding.remedy;
    });
    // The only server needs no address beside its findings.
    if (facts_.mode == remote::Mode::kStandalone) return all_.push_back(std::move(finding));
    if (same != all_.end()) return same->where.push_back(where);
    finding.where = {where};
    all_.push_back(std::move(finding));
  }
  void add(Weight weight, const char* id, std::string what, std::string remedy) {
    all_.push_back({weight, id, std::move(what), std::move(remedy)});
  }
  // A dead Sentinel or node is only a warning while others have answered the same question.
  void add_failure(const CheckedServer& server, remote::Kind kind, bool others_told) {
    if (server.facts.ended == Step::kNone) return;
    Diagnostic finding = failure_finding({backend_, server.facts, processors_, kind});
    if (others_told) finding.weight = Weight::kWarning;
    add(std::move(finding), server);
  }
  // Notes only: a cache may live without replicas, and chunks of a lost master are computed again.
  void add_of_mode(const CheckedServer& server) {
    if (facts_.mode != remote::Mode::kStandalone && server.facts.replicas == 0U)
      add({Weight::kNote, "no-replica",
           "the master has no replica: while the master is away, its chunks are misses",
           "add a replica, which takes over; for a cache a replica may not be worth its memory"},
          server);
    // Redis' default is yes. For a cache the other masters should go on serving.
    if (server.facts.full_coverage.value_or(false) && facts_.mode == remote::Mode::kCluster)
      add({Weight::kNote, "full-coverage",
           "cluster-require-full-coverage is yes: with one master away all nodes answer "
           "CLUSTERDOWN",
           "CONFIG SET cluster-require-full-coverage no at each node: the other masters then serve "
           "on, and only chunks of the absent master are misses"},
          server);
  }
  void add_of_sentinels() {
    std::vector<std::string> named;
    for (const CheckedServer& sentinel : facts_.sentinels)
      if (sentinel.facts.named &&
          std::ranges::find(named, remote::text_of(*sentinel.facts.named)) == named.end())
        named.push_back(remote::text_of(*sentinel.facts.named));
    // During a failover Sentinels disagree for seconds; for longer they form two groups.
    if (named.size() > 1)
      add(Weight::kWarning, "sentinels-disagree",
          "the Sentinels name different masters: " + joined(named),
          "check again; if the Sentinels still disagree, they do not reach each other (SENTINEL "
          "SENTINELS " +
              backend_.sentinel_master + ")");
    if (facts_.sentinels.size() == 1)
      add(Weight::kNote, "one-sentinel",
          "backend.url names one Sentinel: while this Sentinel is away, a starting larderd finds "
          "no master",
          "name three Sentinels in backend.url");
  }
  void add_of_cluster() {
    // A warning: larderd treats the chunks of these slots as misses and serves all others.
    if (facts_.unserved_slots != 0)
      add(Weight::kWarning, "unserved-slots",
          base::grouped(facts_.unserved_slots) + " of " + base::grouped(remote::kSlots) +
              " slots have no master: chunks of these slots are misses",
          "run redis-cli --cluster check, and --cluster fix");
  }
  static std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
  }

  const config::BackendConfig& backend_;
  const InstallationFacts& facts_;
  const unsigned processors_;
  std::vector<Diagnostic> all_;
};

}  // namespace

std::vector<Diagnostic> findings_of(const config::BackendConfig& backend,
                                    const InstallationFacts& facts, unsigned processors) {
  return Findings(backend, facts, processors).all();
}

}  // namespace larder::backend_check
