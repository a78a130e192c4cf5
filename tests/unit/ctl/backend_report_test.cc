// The report of `larderctl backend check` about a server's answers: the printed screens and the
// JSON.
#include "sidecar/ctl/backend_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/backend_check/installation_diagnostics.h"
#include "sidecar/config/loader.h"
#include "tests/unit/ctl/sample_stats.h"

namespace larder::ctl {
namespace {

using backend_check::CheckedServer;
using backend_check::InstallationFacts;
using backend_check::ServerFacts;
using remote::Mode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

config::BackendConfig backend(const std::string& url, const std::vector<config::Value>& more = {}) {
  std::vector<config::Value> values{{"backend.url", url, "the URL"}};
  values.insert(values.end(), more.begin(), more.end());
  const Result<config::Config> config = config::load(values);
  EXPECT_TRUE(config.ok()) << config.status().text();
  return config.ok() ? config->backend : config::BackendConfig();
}

// A Valkey set up by docs/guides/share-a-backend.md.
backend_check::ServerFacts good() {
  backend_check::ServerFacts facts;
  facts.connect_ns = 1'500'000;
  facts.product = "Valkey";
  facts.version = "8.0.1";
  facts.mode = "standalone";
  facts.role = "master";
  facts.databases = 16;
  facts.max_bytes = 48ULL << 30;
  facts.used_bytes = 12ULL << 30;
  facts.machine_bytes = 64ULL << 30;
  facts.io_threads = 4;
  facts.policy = "allkeys-lru";
  facts.append_only = facts.snapshots = false;
  facts.pings = {1000, 75'000, 210'000};
  facts.set_bytes_per_s = 1200ULL << 20;
  facts.get_bytes_per_s = 1900ULL << 20;
  return facts;
}

// A server with default settings, far away and slow.
backend_check::ServerFacts as_it_comes() {
  backend_check::ServerFacts facts = good();
  facts.product = "Redis";
  facts.version = "7.0.15";
  facts.max_bytes = 0;
  facts.policy = "noeviction";
  facts.io_threads = 1;
  facts.append_only = facts.snapshots = true;
  facts.pings = {21, 24'000'000, 31'000'000};
  facts.set_bytes_per_s = facts.get_bytes_per_s = 11ULL << 20;
  return facts;
}

backend_check::ServerFacts failed(backend_check::ServerFacts::Step step, const std::string& why) {
  backend_check::ServerFacts facts;
  facts.ended = step;
  facts.failure = {Code::kUnavailable, why};
  return facts;
}

std::vector<std::string> ids(const config::BackendConfig& of,
                             const backend_check::InstallationFacts& facts) {
  std::vector<std::string> ids;
  for (const backend_check::Diagnostic& finding : backend_check::findings_of(of, facts, 4))
    ids.push_back(finding.id);
  return ids;
}

std::vector<std::string> ids(const config::BackendConfig& of,
                             const backend_check::ServerFacts& facts, unsigned processors = 4) {
  std::vector<std::string> ids;
  for (const backend_check::Diagnostic& finding :
       backend_check::findings_of({of, facts, processors}))
    ids.push_back(finding.id);
  return ids;
}

backend_check::InstallationFacts alone(const backend_check::ServerFacts& facts) {
  backend_check::InstallationFacts all;
  all.servers = {{{"10.0.0.1", 6379}, facts}};
  return all;
}

void expect_screens(const std::string& name, const config::BackendConfig& of,
                    const backend_check::InstallationFacts& facts) {
  const std::vector<backend_check::Diagnostic> findings = backend_check::findings_of(of, facts, 16);
  expect_golden("backend_" + name, backend_screen(of, facts, findings));
  expect_golden("backend_" + name + "_json", backend_json(of, facts, findings));
}

const std::vector<config::Value> kPassword{
    {"backend.password_file", "/etc/larder/password", "--password-file"}};

TEST(BackendReportTest, WellConfiguredServer) {
  expect_screens("well", backend("rediss://larder@cache.example/2", kPassword), alone(good()));
}
TEST(BackendReportTest, ServerWithDefaultSettings) {
  expect_screens("as_it_comes", backend("redis://cache.example:6379"), alone(as_it_comes()));
}
TEST(BackendReportTest, ServerWithMissingRight) {
  backend_check::ServerFacts facts = good();
  facts.max_bytes = facts.used_bytes = facts.machine_bytes = facts.io_threads = facts.databases =
      std::nullopt;
  facts.append_only = facts.snapshots = std::nullopt;
  facts.policy.clear();
  facts.missing = {"GETRANGE", "SET"};
  facts.set_bytes_per_s = facts.get_bytes_per_s = 0;
  expect_screens(
      "rights",
      backend("redis://kv@10.0.0.1/3", {{"backend.prefix", "kv", "--prefix"}, kPassword[0]}),
      alone(facts));
}
TEST(BackendReportTest, UnreachableServer) {
  expect_screens("not_reached", backend("unix:///run/redis/redis.sock"),
                 alone(failed(backend_check::ServerFacts::Step::kConnect,
                              "connect: No such file or directory")));
}
TEST(BackendReportTest, ASentinel) {
  backend_check::ServerFacts facts =
      failed(backend_check::ServerFacts::Step::kMode,
             "the server is a Sentinel, not one that keeps data: backend.url is redis-sentinel://");
  facts.connect_ns = 1;
  facts.product = "Redis";
  facts.version = "7.0.15";
  facts.mode = "sentinel";
  facts.role = "master";
  expect_screens("sentinel", backend("redis://10.0.0.1:26379"), alone(facts));
}

backend_check::ServerFacts sentinel_facts(const remote::Endpoint& named) {
  backend_check::ServerFacts facts;
  facts.connect_ns = 1;
  facts.product = "Redis";
  facts.version = "7.0.15";
  facts.mode = "sentinel";
  facts.named = named;
  facts.quorum = 2;
  facts.other_sentinels = 2;
  facts.replicas = 1;
  return facts;
}

TEST(BackendReportTest, SentinelsWithOneUnreachable) {
  const remote::Endpoint master{"10.0.0.7", 6379};
  backend_check::InstallationFacts facts;
  facts.mode = Mode::kSentinel;
  facts.sentinels = {
      {{"s1", 26'379}, sentinel_facts(master)},
      {{"s2", 26'379},
       failed(backend_check::ServerFacts::Step::kConnect, "connect: Connection refused")},
      {{"s3", 26'379}, sentinel_facts(master)}};
  facts.servers = {{master, good()}};
  facts.servers[0].facts.replicas = 1;
  expect_screens("sentinels", backend("redis-sentinel://larder@s1,s2,s3/kv", kPassword), facts);
  facts.servers.clear();
  for (backend_check::CheckedServer& sentinel : facts.sentinels)
    sentinel.facts =
        failed(backend_check::ServerFacts::Step::kMode, "the Sentinel knows no master kv");
  EXPECT_THAT(ids(backend("redis-sentinel://s1,s2,s3/kv"), facts), ElementsAre("sentinel-master"))
      << "said once of all";
}

TEST(BackendReportTest, ClusterWithUnreachableAndMisconfiguredMasters) {
  backend_check::InstallationFacts facts;
  facts.mode = Mode::kCluster;
  facts.mute_nodes = {
      {{"h0", 6379}, failed(backend_check::ServerFacts::Step::kConnect, "h0 has no address")}};
  facts.servers = {
      {{"10.0.0.1", 6379}, good(), 5461},
      {{"10.0.0.2", 6379}, good(), 5461},
      {{"10.0.0.3", 6379},
       failed(backend_check::ServerFacts::Step::kConnect, "connect: Connection refused"),
       5461}};
  for (std::size_t i : {0U, 1U}) {
    facts.servers[i].facts.mode = "cluster";
    facts.servers[i].facts.replicas = i;
    facts.servers[i].facts.full_coverage = true;
  }
  facts.servers[1].facts.policy = "noeviction";
  facts.unserved_slots = 1;
  expect_screens("cluster", backend("redis-cluster://larder@h0,10.0.0.1", kPassword), facts);
}

TEST(BackendFindingsTest, DocumentedSetupHasNoFinding) {
  EXPECT_THAT(ids(backend("rediss://larder@h", kPassword), good()), IsEmpty());
}

// One thing wrong at a time.
// covers F-205
TEST(BackendFindingsTest, EachProblemHasItsFinding) {
  const config::BackendConfig of = backend("rediss://larder@h", kPassword);
  const auto with = [&of](const std::function<void(backend_check::ServerFacts&)>& change,
                          unsigned processors = 4) {
    backend_check::ServerFacts facts = good();
    change(facts);
    return ids(of, facts, processors);
  };
  EXPECT_THAT(with([](auto& f) { f.policy = "noeviction"; }), ElementsAre("noeviction"));
  EXPECT_THAT(with([](auto& f) { f.max_bytes = 0; }), ElementsAre("no-maxmemory"));
  EXPECT_THAT(with([](auto& f) { f.max_bytes = 100 << 20; }), ElementsAre("little-memory"));
  EXPECT_THAT(with([](auto& f) { f.max_bytes = *f.machine_bytes; }),
              ElementsAre("too-much-memory"));
  EXPECT_THAT(with([](auto& f) { f.missing = {"READONLY"}; }), ElementsAre("rights"));
  EXPECT_THAT(with([](auto& f) { f.policy = "volatile-ttl"; }), ElementsAre("volatile"));
  EXPECT_THAT(with([](auto& f) { f.append_only = true; }), ElementsAre("appendonly"));
  EXPECT_THAT(with([](auto& f) { f.snapshots = true; }), ElementsAre("save"));
  EXPECT_THAT(with([](auto& f) { f.role = "replica"; }), ElementsAre("replica"));
  EXPECT_THAT(with([](auto& f) { f.io_threads = 1; }), ElementsAre("io-threads"))
      << "a note: its machine is not known";
  EXPECT_THAT(with([](auto& f) { f.io_threads = 1, f.local = true; }, 4), IsEmpty());
  EXPECT_THAT(with([](auto& f) { f.io_threads = 1, f.local = true; }, 8),
              ElementsAre("io-threads"));
  EXPECT_THAT(with([](auto& f) { f.connect_ns = 600'000'000; }), ElementsAre("slow-connect"));
  EXPECT_THAT(with([](auto& f) { f.pings.p50_ns = 30'000'000; }), ElementsAre("latency"));
  EXPECT_THAT(with([](auto& f) { f.get_bytes_per_s = 100 << 20; }), ElementsAre("rate"));
  EXPECT_THAT(with([](auto& f) { f.snapshots = std::nullopt; }), ElementsAre("not-told"));
  EXPECT_THAT(with([](auto& f) { f.missing = {"SCAN"}; }), ElementsAre("rights"));
  EXPECT_THAT(with([](auto& f) {
                f.writes = {Code::kUnavailable, "... (OOM)"};
              }),
              ElementsAre("full"));
  EXPECT_THAT(with([](auto& f) {
                f.role = "replica", f.writes = {Code::kUnavailable, "... (READONLY)"};
              }),
              ElementsAre("replica"));
  EXPECT_THAT(with([](auto& f) {
                f.writes = {Code::kUnavailable, "... (MISCONF)"};
              }),
              ElementsAre("misconf"));
  EXPECT_THAT(with([](auto& f) {
                f.writes = {Code::kUnavailable, "... (NOREPLICAS)"};
              }),
              ElementsAre("no-writes"));
  EXPECT_THAT(ids(backend("redis://larder@h", kPassword), good()), ElementsAre("no-tls"));
  EXPECT_THAT(ids(backend("rediss://h"), good()), ElementsAre("open"));
  EXPECT_THAT(ids(backend("rediss://larder@h", {kPassword[0], {"backend.ttl", "1d", ""}}),
                  [] {
                    backend_check::ServerFacts facts = good();
                    facts.policy = "volatile-lru";
                    return facts;
                  }()),
              IsEmpty());
}

TEST(BackendFindingsTest, HeaviestFindingComesFirst) {
  backend_check::ServerFacts facts = as_it_comes();
  facts.writes = {Code::kUnavailable, "(OOM)"};
  const config::BackendConfig of = backend("redis://h");
  std::vector<backend_check::Weight> weights;
  for (const backend_check::Diagnostic& finding : backend_check::findings_of({of, facts, 16}))
    weights.push_back(finding.weight);
  EXPECT_TRUE(std::ranges::is_sorted(weights));
  EXPECT_EQ(weights.front(), backend_check::Weight::kUnusable);
  EXPECT_EQ(weights.back(), backend_check::Weight::kNote);
}

TEST(BackendFindingsTest, UnknownFailureIsStillReported) {
  const config::BackendConfig of = backend("redis://h");
  EXPECT_THAT(ids(of, failed(backend_check::ServerFacts::Step::kUse, "something new")),
              ElementsAre("failed"));
  EXPECT_THAT(ids(of, failed(backend_check::ServerFacts::Step::kConnect, "something new")),
              ElementsAre("unreachable"));
}

// A port that greets and hangs up at a value is no port for TLS.
TEST(BackendFindingsTest, ClosedConnectionReasonDependsOnTheStep) {
  const config::BackendConfig of = backend("redis://h");
  const auto remedy = [&](backend_check::ServerFacts::Step step) {
    const backend_check::ServerFacts facts = failed(step, "receive: Connection reset by peer");
    return backend_check::findings_of({of, facts, 4}).front().remedy;
  };
  EXPECT_THAT(remedy(backend_check::ServerFacts::Step::kGreet), HasSubstr("rediss://"));
  EXPECT_THAT(remedy(backend_check::ServerFacts::Step::kUse),
              AllOf(HasSubstr("client-output-buffer-limit"), Not(HasSubstr("rediss://"))));
}

TEST(BackendFindingsTest, MinimalAclRightsNamePrefixAndUser) {
  EXPECT_EQ(backend_check::least_rights(
                backend("redis://kv@h/1", {kPassword[0], {"backend.prefix", "blue", ""}})),
            "ACL SETUSER kv on >PASSWORD ~blue:* +hello +ping +info +select +get +getrange +set "
            "+getdel +unlink +scan");
  EXPECT_EQ(backend_check::least_rights(backend("redis-cluster://kv@h", kPassword)),
            "ACL SETUSER kv on >PASSWORD ~larder:* +hello +ping +info +get +getrange +set +getdel "
            "+unlink +scan +cluster|slots +asking");
}

}  // namespace
}  // namespace larder::ctl
