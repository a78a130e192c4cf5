#include "operator/reconcile/backend_status.h"

#include <gtest/gtest.h>

#include "tests/unit/operator/reconcile/condition_text.h"

namespace larder::reconcile {
namespace {

using api::Object;

BackendFacts backend_facts(const char* spec) {
  BackendFacts facts;
  facts.generation = 1;
  Result<api::CacheBackend> backend =
      api::parse_backend({{"metadata", {{"name", "cache"}, {"namespace", "ml"}, {"uid", "u"}}},
                          {"spec", Object::parse(spec)}});
  facts.parsed = backend.ok() ? Status() : backend.status();
  if (backend.ok()) facts.backend = *backend;
  return facts;
}
constexpr const char* kRedis = R"({"endpoints": ["redis:6379"], "password": {"name": "s"}})";

BackendSeen valkey() {
  BackendSeen seen;
  seen.product = "Valkey";
  seen.version = "8.0.1";
  seen.role = "master";
  seen.mode = "standalone";
  seen.servers = 1;
  seen.used_bytes = 1ULL << 30;
  seen.max_bytes = 8ULL << 30;
  seen.ping_ns = 210'000;
  return seen;
}

Condition of_type(const BackendFacts& facts, const std::string& type) {
  return condition_of(backend_conditions(facts), type);
}

TEST(BackendStatusTest, AnsweringServerIsReady) {
  BackendFacts facts = backend_facts(kRedis);
  facts.seen = valkey();
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True Answers");
  EXPECT_EQ(in_short(of_type(facts, "WellSet")), "True WellSet");
  const Object status = backend_status(facts, Object(), "now");
  EXPECT_EQ(status["server"], "Valkey");
  EXPECT_EQ(status["version"], "8.0.1");
  EXPECT_EQ(status["reachable"], true);
  EXPECT_EQ(status["memory"]["text"], "983Mi/8Gi");
  EXPECT_EQ(status["latency"], "0.2ms");
  EXPECT_FALSE(status.contains("lastError"));
}

TEST(BackendStatusTest, FindingsAreReportedAndKept) {
  BackendFacts facts = backend_facts(kRedis);
  BackendSeen seen;
  seen.findings = {
      {BackendFinding::Weight::kUnusable, "wrong-password", "WRONGPASS. Look at the Secret"}};
  facts.seen = seen;
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False WrongPassword");
  const Object bad = backend_status(facts, Object(), "now");
  EXPECT_EQ(bad["lastError"], "WRONGPASS. Look at the Secret");
  EXPECT_EQ(bad["reachable"], false);
  facts.seen = valkey();
  EXPECT_EQ(backend_status(facts, {{"status", bad}}, "later")["lastError"],
            "WRONGPASS. Look at the Secret");
}

TEST(BackendStatusTest, WarningsLeaveItReady) {
  BackendFacts facts = backend_facts(kRedis);
  BackendSeen seen = valkey();
  seen.findings = {
      {BackendFinding::Weight::kWarning, "noeviction", "maxmemory-policy is noeviction"}};
  facts.seen = seen;
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True Answers");
  EXPECT_EQ(in_short(of_type(facts, "WellSet")), "False Noeviction");
}

TEST(BackendStatusTest, MissingSecretIsReported) {
  BackendFacts facts = backend_facts(kRedis);
  facts.secrets.missing = "there is no Secret s";
  EXPECT_EQ(in_short(of_type(facts, "SecretMissing")), "True NotFound");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False SecretMissing");
}

// The chart gives the operator no right to Secrets without a list of Secrets: then the operator
// believes the sidecars.
TEST(BackendStatusTest, UnreadableSecretFallsBackToSidecarReports) {
  BackendFacts facts = backend_facts(kRedis);
  facts.secrets.unreadable = "the operator may not read Secret s";
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "Unknown NotChecked");
  facts.sidecars = {2, 2, ""};
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True BySidecars");
  facts.sidecars = {2, 0, "refused"};
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False NotBySidecars");
  EXPECT_EQ(in_short(of_type(facts, "SecretMissing")), "Unknown NotReadable");
}

// The operator's own reach is of no use if a NetworkPolicy keeps the pods from the server.
// covers F-252, F-253
TEST(BackendStatusTest, ServerUnreachableFromSidecarsIsNotReachable) {
  BackendFacts facts = backend_facts(kRedis);
  facts.seen = valkey();
  facts.sidecars = {3, 3, ""};
  EXPECT_EQ(of_type(facts, "Ready").message, "Valkey 8.0.1");
  facts.sidecars = {3, 2, "no connection to the server: timed out"};
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True Answers");
  EXPECT_EQ(of_type(facts, "Ready").message,
            "Valkey 8.0.1. 2 of 3 sidecars use the backend, another cannot: no connection to the "
            "server: timed out");
  facts.sidecars = {3, 0, "no connection to the server: timed out"};
  const Condition ready = of_type(facts, "Ready");
  EXPECT_EQ(in_short(ready), "False NotBySidecars");
  EXPECT_NE(ready.message.find("none of 3 sidecars: no connection to the server: timed out"),
            std::string::npos)
      << ready.message;
  EXPECT_EQ(backend_status(facts, Object(), "now")["reachable"], false);
}

// A full server, or one that refuses large values: reads are answered, and refusals are reported in
// larderd's words.
TEST(BackendStatusTest, ServerRefusingChunksStaysReachable) {
  BackendFacts facts = backend_facts(kRedis);
  facts.seen = valkey();
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "Unknown NotAsked");
  facts.sidecars = {3, 3, ""};
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "True Serves");
  facts.sidecars.degraded = {"chat-1", "chat-2"};
  facts.sidecars.why_degraded = "OOM command not allowed when used memory > 'maxmemory'";
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "False BackendDegraded");
  EXPECT_EQ(of_type(facts, "CacheServes").message,
            "2 of 3 pods (chat-1, chat-2) read from the backend and cannot use the backend fully: "
            "OOM command not allowed when used memory > 'maxmemory'");
  EXPECT_EQ(in_short(of_type(facts, "Reachable")), "True Answers");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True Answers");
  facts.sidecars = {2, 0, "refused"};
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "Unknown NotAsked");
}

TEST(BackendStatusTest, ManagedServerIsStarting) {
  BackendFacts facts = backend_facts(R"({"managed": {"memory": "1Gi"}})");
  ASSERT_TRUE(facts.parsed.ok()) << facts.parsed.text();
  BackendSeen seen;
  seen.findings = {{BackendFinding::Weight::kUnusable, "unreachable", "no such host"}};
  facts.seen = seen;
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False Starting");
  facts.stateful_set = std::make_shared<const Object>(Object{{"status", {{"readyReplicas", 1}}}});
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False Unreachable");
  facts.brought.taken = {"StatefulSet larder-cache is there already"};
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False NameTaken");
}

TEST(BackendStatusTest, FluctuatingLatencyIsNotWritten) {
  BackendFacts facts = backend_facts(kRedis);
  facts.seen = valkey();
  const Object before = {{"status", backend_status(facts, Object(), "2026-01-01T00:00:00Z")}};
  BackendSeen seen = valkey();
  seen.ping_ns = 350'000;
  facts.seen = seen;
  EXPECT_EQ(backend_status(facts, before, "later"), before["status"]);
  seen.ping_ns = 3'500'000;
  facts.seen = seen;
  EXPECT_EQ(backend_status(facts, before, "later")["latency"], "4ms");
  seen.ping_ns = 9'700'000;
  facts.seen = seen;
  EXPECT_EQ(backend_status(facts, before, "later")["latency"], "10ms");
}

TEST(BackendStatusTest, InvalidSpecIsReported) {
  const BackendFacts facts = backend_facts(R"({"endpoints": ["a:1"], "mode": "Sentinel"})");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False Invalid");
  EXPECT_NE(of_type(facts, "Ready").message.find("spec.master"), std::string::npos);
  EXPECT_EQ(backend_status(facts, Object(), "now")["reachable"], false);
}

}  // namespace
}  // namespace larder::reconcile
