#include "operator/reconcile/pool_status.h"

#include <gtest/gtest.h>

#include "operator/reconcile/pool_conditions.h"
#include "sidecar/pages/status_json.h"
#include "tests/unit/operator/reconcile/condition_text.h"

namespace larder::reconcile {
namespace {

using api::Object;

Object pool_object(const char* spec) {
  return {{"metadata", {{"name", "chat"}, {"namespace", "ml"}, {"uid", "u"}, {"generation", 3}}},
          {"spec", Object::parse(spec)}};
}

PoolFacts pool_facts(const char* spec) {
  PoolFacts facts;
  facts.generation = 3;
  Result<api::CachePool> pool = api::parse_pool(pool_object(spec));
  facts.parsed = pool.ok() ? Status() : pool.status();
  if (pool.ok()) facts.pool = *pool;
  facts.desired_state.of_pod = {"c", "h"};
  facts.desired_state.of_pod_on_host_network = {"c2", "h2"};
  return facts;
}
constexpr const char* kSmall = R"({"memory": {"size": "1Gi"}})";

PodView ready_pod(int number) {
  PodView pod;
  pod.name = "chat-" + std::to_string(number);
  pod.uid = "uid-" + std::to_string(number);
  pod.has_larderd = pod.running = pod.ready = true;
  pod.restart_hash = "h";
  return pod;
}

Condition of_type(const PoolFacts& facts, const std::string& type) {
  return condition_of(pool_conditions(facts), type);
}

TEST(PoolConditionsTest, PoolWithoutPodsIsReadyAndNamesTheNextStep) {
  const Condition ready = of_type(pool_facts(kSmall), "Ready");
  EXPECT_EQ(in_short(ready), "True NoPods");
  EXPECT_NE(ready.message.find("larder.dev/pool: chat"), std::string::npos);
  EXPECT_EQ(in_short(of_type(pool_facts(kSmall), "BackendReady")), "Unknown (not there)");
  EXPECT_EQ(in_short(of_type(pool_facts(kSmall), "HugepagesMissing")), "Unknown (not there)");
}

TEST(PoolConditionsTest, InvalidSpecNamesItsField) {
  const PoolFacts wrong = pool_facts(R"({"memory": {"size": "8GB"}})");
  EXPECT_EQ(in_short(of_type(wrong, "Ready")), "False Invalid");
  EXPECT_NE(of_type(wrong, "Ready").message.find("spec.memory.size"), std::string::npos);
  EXPECT_EQ(in_short(of_type(wrong, "SizesFit")), "False DoNotFit");
  const PoolFacts limit =
      pool_facts(R"({"memory": {"size": "8Gi"}, "resources": {"limits": {"memory": "1Gi"}}})");
  EXPECT_EQ(in_short(of_type(limit, "SizesFit")), "False DoNotFit");
  EXPECT_NE(of_type(limit, "SizesFit").message.find("at least"), std::string::npos);
}

TEST(PoolConditionsTest, MissingBackendIsReported) {
  const PoolFacts facts =
      pool_facts(R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  EXPECT_EQ(in_short(of_type(facts, "BackendReady")), "False NoSuchBackend");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False NoSuchBackend");
  EXPECT_NE(of_type(facts, "Ready").message.find("CacheBackend cache in namespace ml"),
            std::string::npos);
}

TEST(PoolConditionsTest, BackendProblemIsReportedForThePool) {
  PoolFacts facts = pool_facts(R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "cache"}})");
  const auto with = [&](const char* conditions) {
    facts.backend = std::make_shared<const Object>(
        Object{{"status", {{"conditions", Object::parse(conditions)}}}});
  };
  with("[]");
  EXPECT_EQ(in_short(of_type(facts, "BackendReady")), "Unknown NotChecked");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True NoPods");
  with(R"([{"type": "Ready", "status": "False", "reason": "WrongPassword", )"
       R"("message": "look at the Secret"}])");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False WrongPassword");
  EXPECT_EQ(of_type(facts, "Ready").message, "CacheBackend cache: look at the Secret");
  with(R"([{"type": "Ready", "status": "False", "reason": "SecretMissing", "message": "x"},
           {"type": "SecretMissing", "status": "True", "reason": "NotFound", "message": "there is no Secret s"}])");
  EXPECT_EQ(in_short(of_type(facts, "SecretMissing")), "True NotFound");
  EXPECT_EQ(of_type(facts, "Ready").message, "CacheBackend cache: there is no Secret s");
  with(R"([{"type": "Ready", "status": "True", "reason": "Answers", "message": "Valkey 8.0.1"}])");
  EXPECT_EQ(in_short(of_type(facts, "BackendReady")), "True Ready");
  EXPECT_EQ(in_short(of_type(facts, "SecretMissing")), "Unknown NotChecked");
  // The operator may not read the node: this stays so, and "not yet" would be false for ever.
  with(R"([{"type": "Ready", "status": "True", "reason": "BySidecars", "message": "1 of 1 pods"},
           {"type": "SecretMissing", "status": "Unknown", "reason": "NotReadable", "message": "Secret auth may not be read"}])");
  EXPECT_EQ(in_short(of_type(facts, "SecretMissing")), "Unknown NotReadable");
  EXPECT_EQ(of_type(facts, "SecretMissing").message,
            "CacheBackend cache: Secret auth may not be read");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True NoPods");
}

TEST(PoolConditionsTest, MissingHugepagesAreReported) {
  PoolFacts facts = pool_facts(R"({"memory": {"size": "1Gi", "hugepages": "2Mi"}})");
  EXPECT_EQ(in_short(of_type(facts, "HugepagesMissing")), "False Enough");
  facts.pods = {ready_pod(1), ready_pod(2)};
  facts.pods[1].ready = facts.pods[1].running = false;
  facts.pods[1].unscheduled = "0/3 nodes are available: 3 Insufficient hugepages-2Mi.";
  EXPECT_TRUE(waits_for_hugepages(facts));
  facts.hugepages_of_nodes = {.known = true, .nodes = {{"node-b", 100, 12}}};
  const Condition missing = of_type(facts, "HugepagesMissing");
  EXPECT_EQ(in_short(missing), "True NotEnough");
  for (const char* part : {"512 free pages of 2Mi", "node-b 12 free of 100",
                           "vm.nr_hugepages=600 on node-b", "kubelet", "1 of 2 pods (chat-2)"})
    EXPECT_NE(missing.message.find(part), std::string::npos) << part << " in " << missing.message;
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False NotEnough");
}

// vm.nr_hugepages is of all pages of a node: the proposed line changes the number, and takes no
// page away.
TEST(PoolConditionsTest, HugepagesToReserveAreCountedPerNode) {
  PoolFacts facts = pool_facts(R"({"memory": {"size": "1Gi", "hugepages": "2Mi"}})");
  facts.pods = {ready_pod(1)};
  facts.pods[0].ready = facts.pods[0].running = false;
  facts.pods[0].unscheduled = "0/3 nodes are available: 3 Insufficient hugepages-2Mi.";
  const auto remedy = [&](const PagesSeen& seen) {
    facts.hugepages_of_nodes = seen;
    const std::string message = of_type(facts, "HugepagesMissing").message;
    const std::size_t at = message.find("vm.nr_hugepages=");
    return at == std::string::npos ? message.substr(message.find("The "))
                                   : message.substr(at + 16, message.find(" (", at) - at - 16);
  };
  EXPECT_EQ(remedy({}), "512 on a node without any");
  EXPECT_EQ(remedy({.known = true, .nodes = {}, .without = 3}), "512 on a node without any");
  EXPECT_EQ(remedy({.known = true, .nodes = {{"a", 512, 0}}}), "1024 on a");
  EXPECT_EQ(remedy({.known = true, .nodes = {{"a", 1000, 12}, {"b", 512, 511}}, .without = 1}),
            "1500 on a, 513 on b, 512 on a node without any");
  EXPECT_EQ(remedy({.known = true, .nodes = {{"a", 1000, std::nullopt}}}),
            "the node's current number plus 512");
  EXPECT_EQ(remedy({.known = true, .nodes = {{"a", 1000, 600}, {"b", 100, 0}}}), "612 on b");
  EXPECT_EQ(remedy({.known = true, .nodes = {{"a", 1000, 600}}}),
            "The scheduler: 0/3 nodes are available: 3 Insufficient hugepages-2Mi.. The nodes have "
            "enough free pages: another constraint keeps the pods from the nodes");
}

// covers F-392
TEST(PoolConditionsTest, TellsWhetherAPolicyGuardsMooncake) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(1)};
  facts.parsed_backend.emplace();
  facts.parsed_backend->spec.type = api::BackendType::kMooncake;
  EXPECT_EQ(in_short(of_type(facts, "PortsGuarded")), "True Guarded");
  facts.isolation = desired::Isolation::kMixed;
  EXPECT_EQ(in_short(of_type(facts, "PortsGuarded")), "False MixedPolicies");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True AllReady");
  facts.pods[0].host_network = true;
  EXPECT_EQ(in_short(of_type(facts, "PortsGuarded")), "False HostNetwork");
  facts.parsed_backend->spec.type = api::BackendType::kInfiniStore;
  EXPECT_TRUE(std::ranges::none_of(pool_conditions(facts), [](const Condition& condition) {
    return condition.type == "PortsGuarded";
  })) << "larder-infinistore listens at no port";
}

// covers F-214, F-216, F-394
TEST(PoolConditionsTest, WhatKeepsLarderdFromRunning) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(1), ready_pod(2)};
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "True AllReady");
  PodView& pod = facts.pods[1];
  pod.ready = false;
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "False Starting");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True Starting");
  pod.waiting = "ImagePullBackOff";
  pod.waiting_text = "no such image";
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "False ImageNotPulled");
  EXPECT_NE(of_type(facts, "Ready").message.find("spec.image"), std::string::npos);
  pod.waiting_container = "larder-mooncake";
  EXPECT_NE(of_type(facts, "Ready").message.find("mooncake.image of the chart"), std::string::npos);
  pod.waiting_container = "larder-infinistore";
  EXPECT_NE(of_type(facts, "Ready").message.find("infinistore.image of the chart"),
            std::string::npos);
  pod.waiting = "CrashLoopBackOff";
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "False DoesNotRun");
  EXPECT_NE(of_type(facts, "Ready").message.find("-c larder-infinistore"), std::string::npos);
  pod.killed_for_memory = true;
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False OutOfMemory");
}

// The container runs, by its supervisor; larderd in the container does not.
// covers F-209, F-213
TEST(PoolConditionsTest, SupervisorReportOfStoppedLarderdIsShown) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(1), ready_pod(2)};
  facts.heard.down["uid-2"] = {.why = "larderd ended with exit status 1: too few huge pages"};
  Condition condition = of_type(facts, "Ready");
  EXPECT_EQ(in_short(condition), "False DoesNotRun");
  for (const char* part : {"1 of 2 pods (chat-2)", "without its cache", "too few huge pages",
                           "kubectl logs chat-2 -c larder"})
    EXPECT_NE(condition.message.find(part), std::string::npos)
        << part << " in " << condition.message;
  facts.heard.down["uid-2"].out_of_memory = true;
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "False OutOfMemory");
}

// covers F-226
TEST(PoolConditionsTest, GpuInvisibleToLarderdIsReported) {
  EXPECT_EQ(in_short(of_type(pool_facts(kSmall), "GpuVisible")), "Unknown (not there)");
  constexpr const char* kCopies =
      R"({"memory": {"size": "1Gi"}, "transfer": "sidecar", "runtimeClassName": "nvidia"})";
  PoolFacts facts = pool_facts(kCopies);
  facts.pods = {ready_pod(1), ready_pod(2)};
  EXPECT_EQ(in_short(of_type(facts, "GpuVisible")), "True Asked");
  facts.pods[1].notice = "larderd sees no GPU: the pod has no resource claim gpu";
  const Condition condition = of_type(facts, "GpuVisible");
  EXPECT_EQ(in_short(condition), "False NotVisible");
  EXPECT_NE(condition.message.find("1 of 2 pods (chat-2): larderd sees no GPU"), std::string::npos)
      << condition.message;
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True AllReady");  // the engine's process copies
  const PoolFacts node =
      pool_facts(R"({"memory": {"size": "1Gi"}, "transfer": "sidecar", "placement": "Node"})");
  EXPECT_EQ(in_short(of_type(node, "GpuVisible")), "False NoRuntimeClass");
}

TEST(PoolConditionsTest, PodsNeedingARestartAreCounted) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(1), ready_pod(2), ready_pod(3)};
  facts.pods[2].host_network = true;
  facts.pods[2].restart_hash = "h2";
  EXPECT_EQ(in_short(of_type(facts, "PodsUpToDate")), "True UpToDate");
  facts.pods[0].restart_hash = "older";
  const Condition condition = of_type(facts, "PodsUpToDate");
  EXPECT_EQ(in_short(condition), "False RestartNeeded");
  EXPECT_NE(condition.message.find("1 of 3 pods (chat-1)"), std::string::npos);
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True AllReady");  // the engine works as before
  EXPECT_EQ(pool_status(facts, Object(), "now")["pods"]["needRestart"], 1);
}

TEST(PoolConditionsTest, CostOfANodeRollIsReported) {
  for (const auto& [pages, word] :
       {std::pair("none", "keep the chunks"), std::pair("2Mi", "keep the chunks"),
        std::pair("1Gi", "loses the chunks in memory: pages of 1Gi belong to the pod")}) {
    PoolFacts facts =
        pool_facts((R"({"placement": "Node", "memory": {"size": "1Gi", "hugepages": ")" +
                    std::string(pages) + "\"}}")
                       .c_str());
    facts.pods = {ready_pod(1)};
    facts.pods[0].restart_hash = "older";
    EXPECT_EQ(in_short(of_type(facts, "PodsUpToDate")), "False RollingOut");
    EXPECT_NE(of_type(facts, "PodsUpToDate").message.find(word), std::string::npos)
        << of_type(facts, "PodsUpToDate").message;
  }
}

// Stored under an older definition: the right spec of its pods is unknown, and no pod is to be
// restarted into it.
TEST(PoolConditionsTest, InvalidSpecRequiresNoRestart) {
  PoolFacts facts = pool_facts(R"({"memory": {"size": "8GB"}})");
  facts.pods = facts.engines = {ready_pod(1), ready_pod(2)};
  facts.engines[0].has_larderd = facts.engines[1].has_larderd = false;
  facts.desired_state = {};
  EXPECT_EQ(pool_status(facts, Object(), "now")["pods"],
            Object::parse(R"({"total": 2, "attached": 2, "needRestart": 0})"));
}

TEST(PoolConditionsTest, ObjectsThatCannotBeAppliedAreReported) {
  PoolFacts facts = pool_facts(R"({"memory": {"size": "1Gi"}, "placement": "Node"})");
  EXPECT_EQ(in_short(of_type(facts, "ObjectsApplied")), "True Applied");
  facts.brought.status = {Code::kPermissionDenied, "daemonsets is forbidden"};
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False Refused");
  facts.brought.taken = {"ConfigMap larder-chat is there already"};
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "False NameTaken");
}

// Pod Security refuses the DaemonSet's pods: no pod reports the refusal, the DaemonSet does.
TEST(PoolConditionsTest, BenefitAndPodsWithoutCacheAreReported) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(0), ready_pod(1)};
  EXPECT_EQ(in_short(of_type(facts, "Helping")), "Unknown NoRequests");
  EXPECT_EQ(in_short(of_type(facts, "EnginesAttached")), "Unknown NotAsked");
  facts.heard.answers["uid-0"].engines = 2;
  facts.heard.answers["uid-0"].tokens_asked = 1000;
  EXPECT_EQ(in_short(of_type(facts, "Helping")), "False NoHits");
  EXPECT_EQ(in_short(of_type(facts, "EnginesAttached")), "True Attached");
  facts.heard.answers["uid-0"].tokens_hit = 427;
  EXPECT_EQ(in_short(of_type(facts, "Helping")), "True Hits");
  EXPECT_EQ(of_type(facts, "Helping").message, "42% of the looked-up prompt tokens hit");
  facts.heard.answers["uid-1"].engines = 0;
  EXPECT_EQ(in_short(of_type(facts, "EnginesAttached")), "False NoEngine");
  EXPECT_NE(of_type(facts, "EnginesAttached").message.find("kubectl larder why chat-1 -n ml"),
            std::string::npos);
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True AllReady");
}

// A pool that works with less than its spec: reported by pod, in larderd's own words, and ready all
// the same.
// covers F-130
TEST(PoolConditionsTest, TierAndEngineProblemsOfLarderdAreReported) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(0), ready_pod(1), ready_pod(2)};
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "Unknown NotAsked");
  for (const char* uid : {"uid-0", "uid-1", "uid-2"})
    facts.heard.answers[uid].fallbacks = {
        {"hugepages", "none are free"}, {"transfer", "no GPU"}, {"config", "wait"}};
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "True Serves");
  auto& second = facts.heard.answers["uid-1"].fallbacks;
  second.push_back(
      {"disk",
       "disk.size: a chunk has 32MiB, and the disk keeps 40MiB: set it to at least 128MiB"});
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "False DiskDegraded");
  EXPECT_EQ(of_type(facts, "CacheServes").message,
            "1 of 3 pods (chat-1): disk: disk.size: a chunk has 32MiB, and the disk keeps 40MiB: "
            "set it to at least 128MiB");
  facts.heard.answers["uid-2"].fallbacks.push_back(
      {"backend", "OOM command not allowed when used memory > 'maxmemory'"});
  facts.heard.answers["uid-0"].fallbacks.push_back(
      {"backend", "OOM command not allowed when used memory > 'maxmemory'"});
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "False BackendDegraded");
  EXPECT_EQ(
      of_type(facts, "CacheServes").message.substr(0, 85),
      "2 of 3 pods (chat-0, chat-2): backend: OOM command not allowed when used memory > 'ma");
  EXPECT_NE(of_type(facts, "CacheServes").message.find(". 1 of 3 pods (chat-1): disk: "),
            std::string::npos);
  second.push_back({"memory", "512 MiB of 1 GiB: Cannot allocate memory"});
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "False MemoryShort");
  EXPECT_EQ(in_short(of_type(facts, "Ready")), "True AllReady");
}

// larderd counts refusals; a status with the count in its text would be written anew every 30 s.
TEST(PoolConditionsTest, RefusedEngineIsReportedWithoutItsCount) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(0)};
  const auto message = [&](std::uint64_t refusals) {
    stats::Stats stats;
    stats.version = "1.2.3";
    stats.fallbacks = {{"engines", "a chunk has 2 GiB: raise memory.size", refusals}};
    const Result<LarderdAnswer> answer = read_answer(pages::status_json(stats, true, true));
    facts.heard.answers["uid-0"] = answer.ok() ? *answer : LarderdAnswer{};
    return of_type(facts, "CacheServes").message;
  };
  const std::string once = message(1);
  EXPECT_EQ(in_short(of_type(facts, "CacheServes")), "False EngineRefused");
  EXPECT_EQ(once, "1 of 1 pods (chat-0): engines: a chunk has 2 GiB: raise memory.size");
  EXPECT_EQ(message(12), once);
}

TEST(PoolConditionsTest, RefusalReasonIsKeptVerbatim) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(0)};
  for (const char* text : {"", "(", " times): ", "the first (2 times): y"}) {
    facts.heard.answers["uid-0"].fallbacks = {{"engines", text}, {"engines", "another"}};
    EXPECT_EQ(of_type(facts, "CacheServes").message,
              std::string("1 of 1 pods (chat-0): engines: ") + text);
  }
}

// However many pods and however long their words, in whole characters.
TEST(PoolConditionsTest, LarderdMessagesAreBounded) {
  PoolFacts facts = pool_facts(kSmall);
  std::string words;
  for (int i = 0; i < 200; ++i) words += "\xc3\xa4";
  for (int i = 0; i < 100; ++i) {
    facts.pods.push_back(ready_pod(i));
    auto& said = facts.heard.answers["uid-" + std::to_string(i)].fallbacks;
    for (const char* kind : {"engines", "memory", "backend", "disk"})
      said.push_back({kind, "x" + words});
  }
  const Condition serves = of_type(facts, "CacheServes");
  EXPECT_NE(
      serves.message.find("100 of 100 pods (chat-0, chat-1, chat-2, chat-3, chat-4 and 95 more)"),
      std::string::npos);
  EXPECT_NE(serves.message.find("\xa4..."), std::string::npos);
  EXPECT_EQ(serves.message.find("\xc3..."), std::string::npos);
  EXPECT_LE(bounded(serves.message).size(), kMostMessage);
}

TEST(PoolConditionsTest, DaemonSetWithoutPodsIsReported) {
  PoolFacts facts = pool_facts(R"({"memory": {"size": "1Gi"}, "placement": "Node"})");
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "True NoPods");
  facts.daemon_set = std::make_shared<const Object>(
      Object{{"metadata", {{"name", "larder-chat"}}}, {"status", {{"desiredNumberScheduled", 2}}}});
  EXPECT_EQ(in_short(of_type(facts, "PodsReady")), "False NotMade");
  EXPECT_NE(of_type(facts, "Ready").message.find("Pod Security"), std::string::npos);
}

TEST(PoolStatusTest, SumsOverThePods) {
  PoolFacts facts = pool_facts(kSmall);
  for (int i = 0; i < 4; ++i) facts.pods.push_back(ready_pod(i));
  facts.pods[3].ready = false;
  for (int i = 0; i < 2; ++i) {
    LarderdAnswer& answer = facts.heard.answers["uid-" + std::to_string(i)];
    answer.capacity_bytes = 1ULL << 30;
    answer.used_bytes = 1ULL << 29;
    answer.tokens_asked = 100;
    answer.tokens_hit = 60;
    answer.engines = 2;
  }
  const Object status = pool_status(facts, Object(), "2026-01-01T00:00:00Z");
  EXPECT_EQ(status["pods"], Object::parse(R"({"total": 4, "attached": 3, "needRestart": 0})"));
  EXPECT_EQ(status["memory"]["text"], "1Gi/2Gi");
  EXPECT_EQ(status["hitRatio"], "60%");
  EXPECT_EQ(status["engines"], 4);
  EXPECT_EQ(status["observedGeneration"], 3);
  EXPECT_FALSE(status.contains("disk"));
}

TEST(PoolStatusTest, WithoutAnswersSumsAreAbsent) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(1)};
  const Object status = pool_status(facts, Object(), "now");
  EXPECT_FALSE(status.contains("memory") || status.contains("hitRatio"));
}

TEST(PoolStatusTest, SizeIsIndependentOfThePodCount) {
  PoolFacts facts = pool_facts(kSmall);
  for (int i = 0; i < 1000; ++i) {
    facts.pods.push_back(ready_pod(i));
    facts.pods.back().name = std::string(200, 'x') + std::to_string(i);
    facts.pods.back().ready = i % 2 == 0;
    facts.pods.back().restart_hash = "old";
  }
  EXPECT_LT(pool_status(facts, Object(), "now").dump().size(), 8000U);
}

TEST(PoolStatusTest, InsignificantChangesKeepTheStatus) {
  PoolFacts facts = pool_facts(kSmall);
  facts.pods = {ready_pod(1)};
  facts.heard.answers["uid-1"].capacity_bytes = 100ULL << 30;
  facts.heard.answers["uid-1"].used_bytes = 50ULL << 30;
  const Object before = {{"status", pool_status(facts, Object(), "2026-01-01T00:00:00Z")}};
  facts.heard.answers["uid-1"].used_bytes += 100ULL << 20;
  facts.heard.answers["uid-1"].requests += 5;
  EXPECT_EQ(pool_status(facts, before, "2026-02-01T00:00:00Z"), before["status"]);
}

TEST(PoolStatusTest, SizesAreReadable) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1ULL << 30), "1Gi");
  EXPECT_EQ(size_text((1ULL << 30) + (1ULL << 28)), "1.25Gi");
  EXPECT_EQ(size_text(1023ULL << 20), "0.999Gi");
  EXPECT_EQ(size_text(512ULL << 20), "512Mi");
  EXPECT_EQ(size_text((1000ULL << 30) - (1ULL << 28)), "0.976Ti");
}

}  // namespace
}  // namespace larder::reconcile
