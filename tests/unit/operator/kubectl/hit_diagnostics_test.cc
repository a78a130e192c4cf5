#include "operator/kubectl/hit_diagnostics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace larder::kubectl {
namespace {

using api::Object;
using ctl::Snapshot;

PodState pod(const Object& more = Object::object()) {
  Object object = Object::parse(R"({
      "metadata": {"name": "llm-1", "namespace": "models", "uid": "u1", "labels": {"larder.dev/pool": "chat"},
                   "annotations": {"larder.dev/pool": "chat", "larder.dev/injected": "0.1.0/chat"}},
      "spec": {"containers": [{"name": "vllm"}], "initContainers": [{"name": "larder-payload"}, {"name": "larder"}], "nodeName": "a"},
      "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "vllm", "ready": true}],
                 "initContainerStatuses": [{"name": "larder", "ready": true}]}})");
  object.merge_patch(more);
  return pod_seen(object);
}

Object with_larderd(const Object& status) {
  return {{"status", {{"initContainerStatuses", Object::array({status})}}}};
}

ctl::NamespaceState space(const std::string& id, const std::string& fingerprint) {
  return {id, "m", 10, 100, 2, fingerprint};
}

// Attached, and asked for long prompts that were never there.
Snapshot cold() {
  Snapshot now;
  now.sessions.attached = {{"vllm", 0, 0, false, "aaaa0000"}};
  now.sessions.opened = 2;
  now.all = {.name = "m",
             .requests = 100,
             .requests_hit = 0,
             .asked = 100'000,
             .hit = 0,
             .loaded = 0,
             .stored = 1000};
  now.memory.chunks = 50;
  now.namespaces = {space("aaaa0000", "dtype: bfloat16\nchunk_tokens: 256\nnone_hash: 11\n")};
  return now;
}

HitFacts facts_of(const PodState& pod, const Snapshot& now) {
  HitFacts facts;
  facts.pod = pod;
  facts.larderd_pod = pod;
  facts.larderd = &now;
  return facts;
}

std::vector<std::string> reasons(const HitFacts& facts) {
  std::vector<std::string> all;
  for (const Diagnostic& finding : why_no_hits(facts)) all.push_back(finding.reason);
  return all;
}
bool has(const HitFacts& facts, const char* reason) {
  const auto all = reasons(facts);
  return std::ranges::find(all, reason) != all.end();
}
std::string first(const HitFacts& facts) {
  return reasons(facts).empty() ? "" : reasons(facts).front();
}

TEST(HitFindings, LarderdNotRunningIsExplained) {
  const Snapshot now;
  const auto why = [&](const Object& more) { return first(facts_of(pod(more), now)); };
  EXPECT_EQ(why(with_larderd({{"name", "larder"},
                              {"ready", false},
                              {"lastState", {{"terminated", {{"reason", "OOMKilled"}}}}}})),
            "LarderdOutOfMemory");
  EXPECT_EQ(why(with_larderd({{"name", "larder"},
                              {"ready", false},
                              {"state", {{"waiting", {{"reason", "ImagePullBackOff"}}}}}})),
            "ImageNotPulled");
  EXPECT_EQ(why(with_larderd({{"name", "larder"}, {"ready", false}})), "LarderdStarting");
  EXPECT_EQ(why(with_larderd({{"name", "larder"},
                              {"ready", false},
                              {"restartCount", 3},
                              {"state", {{"waiting", {{"reason", "CrashLoopBackOff"}}}}}})),
            "LarderdDown");
  Object pending = with_larderd({{"name", "larder"}, {"ready", false}});
  pending["status"]["conditions"] =
      Object::parse(R"([{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}])");
  EXPECT_EQ(why(pending), "NotScheduled");
}

TEST(HitFindings, NodeWithoutLarderdIsExplained) {
  HitFacts facts;
  facts.pod = pod();
  EXPECT_EQ(first(facts), "NoLarderdOnNode");
}

TEST(HitFindings, MissingAnswerHasNoVerdict) {
  HitFacts facts = facts_of(pod(), Snapshot());
  facts.larderd = nullptr;
  facts.not_asked = Status(Code::kPermissionDenied, "pods/proxy is forbidden");
  EXPECT_EQ(first(facts), "LarderdNotAsked");
  EXPECT_NE(why_no_hits(facts)[0].what.find("pods/proxy is forbidden"), std::string::npos);
  EXPECT_NE(why_no_hits(facts)[0].remedy.find("kubectl exec llm-1 -n models -c larder -- larderctl "
                                              "--socket /run/larder/chat.admin status"),
            std::string::npos);
}

TEST(HitFindings, MissingEngineIsExplained) {
  Snapshot now;
  EXPECT_EQ(first(facts_of(pod(), now)), "NeverAttached");
  HitFacts facts = facts_of(pod(), now);
  facts.adds_flags = false;
  EXPECT_EQ(first(facts), "NoConnectorFlag");
  facts.engine_says = "unknown key fetchh in kv_connector_extra_config";
  EXPECT_EQ(first(facts), "EngineOff");
  now.sessions.opened = 1;
  EXPECT_EQ(first(facts_of(pod(), now)), "EngineGone");
  now.sessions.refused = 1;
  EXPECT_EQ(first(facts_of(pod(), now)), "EngineRefused");
  now.sessions.refused = 0;
  now.fallbacks = {{"disk", "is slow"}};
  EXPECT_EQ(first(facts_of(pod(), now)), "EngineGone");
  now.fallbacks.push_back({"engines", "raise memory.size"});
  EXPECT_EQ(first(facts_of(pod(), now)), "EngineRefused");
  EXPECT_NE(why_no_hits(facts_of(pod(), now)).front().what.find("raise memory.size"),
            std::string::npos);
  const auto with_engine = [&](const Object& status) {
    return facts_of(pod({{"status", {{"containerStatuses", Object::array({status})}}}}), now);
  };
  EXPECT_EQ(first(with_engine({{"name", "vllm"}, {"ready", false}})), "EngineStarting");
  EXPECT_EQ(first(with_engine({{"name", "vllm"},
                               {"ready", false},
                               {"state", {{"waiting", {{"reason", "CrashLoopBackOff"}}}}}})),
            "EngineNotRunning");
}

TEST(HitFindings, MissingHitsAreExplained) {
  Snapshot now = cold();
  EXPECT_EQ(reasons(facts_of(pod(), now)), std::vector<std::string>{"NeverRepeated"});
  EXPECT_FALSE(has_problem(why_no_hits(facts_of(pod(), now))));
  now.memory.evicted.capacity = 51;
  EXPECT_TRUE(has(facts_of(pod(), now), "EvictedBeforeUse"));
  now.loads_failed = 3;
  EXPECT_EQ(first(facts_of(pod(), now)), "LoadsFail");
  now = cold();
  now.all.stored = 0;
  EXPECT_EQ(first(facts_of(pod(), now)), "NothingStored");
  EXPECT_FALSE(has_problem(why_no_hits(facts_of(pod(), now))));
  now.memory.refused_no_space = 9;
  EXPECT_TRUE(has_problem(why_no_hits(facts_of(pod(), now))));
  now = cold();
  now.all.too_short = 95;
  EXPECT_EQ(reasons(facts_of(pod(), now)), std::vector<std::string>{"PromptsTooShort"});
  EXPECT_NE(why_no_hits(facts_of(pod(), now))[0].what.find("256 tokens"), std::string::npos);
  now.all = {};
  EXPECT_EQ(first(facts_of(pod(), now)), "NoRequests");
  now = cold();
  now.all.hit = 42'000;
  now.all.requests_hit = 50;
  EXPECT_EQ(reasons(facts_of(pod(), now)), std::vector<std::string>{"Hits"});
  EXPECT_NE(why_no_hits(facts_of(pod(), now))[0].what.find("42%"), std::string::npos);
}

TEST(HitFindings, SaltedRequestsAreReportedWithAndWithoutHits) {
  Snapshot now = cold();
  now.all.salted = 90;
  EXPECT_EQ(reasons(facts_of(pod(), now)), (std::vector<std::string>{"Salted", "NeverRepeated"}));
  const Diagnostic finding = why_no_hits(facts_of(pod(), now))[0];
  EXPECT_EQ(finding.what,
            "90 of 100 requests carried a cache_salt: such requests hit only KV that was computed "
            "with the same salt");
  EXPECT_FALSE(has_problem({finding})) << "equal salts hit each other";
  now.all.hit = 42'000;
  EXPECT_EQ(reasons(facts_of(pod(), now)), (std::vector<std::string>{"Hits", "Salted"}));
}

TEST(HitFindings, DegradedTiersAreReported) {
  Snapshot now = cold();
  now.backend.place = "redis://cache:6379";
  now.backend.reason = "connection refused";
  HitFacts facts = facts_of(pod(), now);
  facts.has_backend = true;
  EXPECT_EQ(first(facts), "BackendDown");
  // A full one answers reads: no word of a backend that does not serve.
  HitFacts full = facts;
  Snapshot refusing = now;
  refusing.backend.serving = true;
  full.larderd = &refusing;
  EXPECT_TRUE(has(full, "BackendDegraded"));
  EXPECT_FALSE(has(full, "BackendDown"));
  now.disk.place = "/var/lib/larder";
  now.disk.reason = "writes fail";
  EXPECT_TRUE(has(facts, "DiskDegraded"));
  now = cold();
  now.sessions.attached[0].silent = true;
  EXPECT_EQ(first(facts_of(pod(), now)), "EngineSilent");
}

TEST(HitFindings, PodsWithoutBackendDoNotShare) {
  const Snapshot now = cold(), other = cold();
  HitFacts facts = facts_of(pod(), now);
  facts.others = {{"llm-2", &other}};
  EXPECT_TRUE(has(facts, "NotShared"));
  facts.has_backend = true;
  EXPECT_FALSE(has(facts, "NotShared"));
}

// covers F-325
TEST(HitFindings, PeersShareUnlessUnreachable) {
  Snapshot now = cold();
  const Snapshot other = cold();
  HitFacts facts = facts_of(pod(), now);
  now.peers.place = "dns:larder-chat-peers.models.svc:9466";
  EXPECT_FALSE(has(facts, "NoPeers")) << "the only pod of the pool";
  facts.others = {{"llm-2", &other}};
  EXPECT_FALSE(has(facts, "NotShared"));
  EXPECT_TRUE(has(facts, "NoPeers"));
  now.peers.servers = 2;
  now.peers.servers_reachable = 1;
  now.peers.reason = "10.0.0.7: Connection refused";
  EXPECT_TRUE(has(facts, "PeersUnreachable"));
  now.peers.servers_reachable = 2;
  now.peers.reason.clear();
  EXPECT_FALSE(has(facts, "PeersUnreachable"));
}

TEST(HitFindings, DifferentHashSeedIsReported) {
  const Snapshot now = cold();
  Snapshot other = cold();
  other.namespaces = {space("bbbb0000", "dtype: bfloat16\nchunk_tokens: 256\nnone_hash: 22\n")};
  HitFacts facts = facts_of(pod(), now);
  facts.others = {{"llm-2", &other}};
  EXPECT_EQ(first(facts), "OtherHashSeed");
  const Diagnostic finding = why_no_hits(facts)[0];
  EXPECT_NE(finding.remedy.find("PYTHONHASHSEED"), std::string::npos);
  EXPECT_NE(finding.what.find("llm-2"), std::string::npos);
  EXPECT_NE(finding.what.find("none_hash: 22 -> 11"), std::string::npos) << finding.what;
}

TEST(HitFindings, DifferingFieldsAreComparedWithTheNearestNamespace) {
  const Snapshot now = cold();
  Snapshot far = cold(), near = cold(), same = cold();
  far.namespaces = {space("bbbb0000", "dtype: float16\nchunk_tokens: 128\nnone_hash: 22\n")};
  near.namespaces = {space("cccc0000", "dtype: float16\nchunk_tokens: 256\nnone_hash: 11\n")};
  HitFacts facts = facts_of(pod(), now);
  facts.others = {{"far", &far}, {"near", &near}};
  EXPECT_EQ(first(facts), "OtherNamespace");
  EXPECT_NE(why_no_hits(facts)[0].what.find("against near"), std::string::npos);
  EXPECT_NE(why_no_hits(facts)[0].remedy.find("--dtype"), std::string::npos);
  facts.others["same"] = &same;
  EXPECT_FALSE(has(facts, "OtherNamespace"));
  EXPECT_TRUE(has(facts, "SameNamespace"));
}

// Names of lines as the connector writes them (shim/python/larder/vllm/identity.py,
// engine_config.py).
TEST(HitFindings, FingerprintFieldsHaveARemedy) {
  const auto cure_has = [](const char* field, const char* word) {
    return remedy_of_field(field).find(word) != std::string::npos;
  };
  EXPECT_TRUE(cure_has("dtype", "--dtype"));
  EXPECT_TRUE(cure_has("attention_kernel", "nodeSelector"));
  EXPECT_TRUE(cure_has("kernel_block_size", "nodeSelector"));
  EXPECT_TRUE(cure_has("attention_config.backend", "flags"));
  EXPECT_TRUE(cure_has("model_config.quantization", "--quantization"));
  EXPECT_TRUE(cure_has("model_config.hf_overrides.rope_parameters.rope_theta", "--hf-overrides"));
  EXPECT_TRUE(cure_has("model_config.hf_config.model_type", "another model"));
  EXPECT_TRUE(cure_has("compilation_config.custom_ops", "--compilation-config"));
  EXPECT_TRUE(cure_has("parallel_config.dcp_comm_backend", "flags"));
  EXPECT_TRUE(cure_has("additional_config.a_plugin", "flags"));
  EXPECT_TRUE(cure_has("VLLM_CPU_ATTN_SPLIT_KV", "environment"));
  EXPECT_TRUE(cure_has("weights", "weights_id"));
  EXPECT_TRUE(cure_has("private", "restart the engine"));
}

TEST(HitFindings, EngineWithoutNamespaceIsLoadingOrDisabled) {
  Snapshot now = cold();
  now.all = {};
  now.sessions.attached[0].space = "";
  HitFacts facts = facts_of(pod(), now);
  EXPECT_EQ(first(facts), "WeightsBeingRead");
  EXPECT_FALSE(has_problem(why_no_hits(facts)));
  facts.engine_says =
      "the weights of m are in an object store; set weights_id in kv_connector_extra_config";
  EXPECT_EQ(first(facts), "EngineOff");
  EXPECT_NE(why_no_hits(facts)[0].what.find("weights_id"), std::string::npos);
}

TEST(HitFindings, FingerprintIsEscapedForTheTerminal) {
  const Snapshot now = cold();
  Snapshot other = cold();
  other.namespaces = {space("bbbb0000", "dtype: \x1b[2Jx\nchunk_tokens: 256\nnone_hash: 11\n")};
  HitFacts facts = facts_of(pod(), now);
  facts.others = {{"llm-2", &other}};
  EXPECT_EQ(why_no_hits(facts)[0].what.find('\x1b'), std::string::npos);
}

TEST(HitFindings, LastShimMessageWins) {
  EXPECT_EQ(why_off("a\nWARNING Larder is off for this engine: first\nb\nWARNING Larder is off for "
                    "this engine: second\nc"),
            "second");
  EXPECT_EQ(why_off("Larder is on"), "");
}

}  // namespace
}  // namespace larder::kubectl
