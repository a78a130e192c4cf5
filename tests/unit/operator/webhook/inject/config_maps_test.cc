// Variables of ConfigMaps that containers name in envFrom: what is known, what stays unread, and
// what a patch holds.
#include "operator/webhook/inject/config_maps.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "operator/webhook/inject/container_variables.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;
using Kind = webhook::ContainerVariable::Kind;

InjectionCase with_map(const std::string& container, const Object& data) {
  InjectionCase one = container_case(container);
  one.config_maps["engine"] = {{"data", data}};
  return one;
}

constexpr const char* kServe =
    "{command: [vllm, serve, m], envFrom: [{configMapRef: {name: engine}}]}";

// covers F-306
TEST(ConfigMaps, ExpandableSegmentsPreventInjection) {
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const InjectionCase one = with_map(kServe, {{name, "expandable_segments:True"}});
    EXPECT_NE(one.inject().refused.find("expandable_segments:True"), std::string::npos);
  }
  EXPECT_EQ(with_map(kServe, {{"HF_HOME", "/models"}}).inject().refused, "");
  EXPECT_EQ(
      with_map(kServe, {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512"}}).inject().refused,
      "");
}

// The ConfigMap has "expandable_segments:True" under the key of the first column.
// covers F-306
TEST(ConfigMaps, OnlyAllocatorVariablesCount) {
  const std::string source = "envFrom: [{configMapRef: {name: engine}}]";
  const std::vector<std::pair<std::string, std::string>> moving{
      {"CUDA_ALLOC_CONF",
       "{command: [vllm, serve, m], envFrom: [{prefix: PYTORCH_, configMapRef: {name: engine}}]}"},
      {"CONF",
       "{command: [vllm, serve, m], env: [{name: PYTORCH_CUDA_ALLOC_CONF, value: $(CONF)}], " +
           source + "}"},
      {"CONF",
       "{command: [sh, -c, 'export PYTORCH_CUDA_ALLOC_CONF=$CONF; vllm serve m'], " + source + "}"},
      {"CONF",
       "{command: [env, 'PYTORCH_CUDA_ALLOC_CONF=$(CONF)', vllm, serve, m], " + source + "}"},
      {"PYTORCH_CUDA_ALLOC_CONF",
       "{command: [vllm, serve, m], envFrom: [{configMapRef: {name: engine}}, {secretRef: {name: "
       "s}}]}"}};
  for (const auto& [key, container] : moving)
    EXPECT_NE(with_map(container, {{key, "expandable_segments:True"}})
                  .inject()
                  .refused.find("expandable_segments:True"),
              std::string::npos)
        << container;
  const std::vector<std::pair<std::string, std::string>> fixed{
      {"NOTE", kServe},
      {"PYTORCH_CUDA_ALLOC_CONF",
       "{command: [vllm, serve, m], env: [{name: PYTORCH_CUDA_ALLOC_CONF, value: ''}], " + source +
           "}"},
      {"PYTORCH_CUDA_ALLOC_CONF",
       "{command: [vllm, serve, m], envFrom: [{configMapRef: {name: engine}}, {configMapRef: "
       "{name: "
       "later}}]}"}};
  for (const auto& [key, container] : fixed) {
    InjectionCase one = with_map(container, {{key, "expandable_segments:True"}});
    one.config_maps["later"] = {{"data", {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:8"}}}};
    EXPECT_EQ(one.inject().refused, "") << container;
  }
}

// covers F-311
TEST(ConfigMaps, RayClusterPreventsInjection) {
  EXPECT_NE(with_map(kServe, {{"RAY_ADDRESS", "head:6379"}}).inject().refused.find("over Ray"),
            std::string::npos);
  const InjectionCase prefixed = with_map(
      "{command: [vllm, serve, m], envFrom: [{prefix: RAY_A, configMapRef: {name: engine}}]}",
      {{"DDRESS", "head:6379"}});
  EXPECT_NE(prefixed.inject().refused.find("over Ray"), std::string::npos);
  const char* const backend =
      "{command: [sh, -c, 'vllm serve m --distributed-executor-backend $B'], envFrom: "
      "[{configMapRef: {name: engine}}]}";
  EXPECT_EQ(with_map(backend, {{"B", "mp"}}).inject().refused, "");
  EXPECT_NE(with_map(backend, {{"B", "ray"}}).inject().refused.find("over Ray"), std::string::npos);
  const char* const flags =
      "{command: [sh, -c, 'vllm serve m $EXTRA'], envFrom: [{configMapRef: {name: engine}}]}";
  for (const char* backend_flag :
       {"--tensor-parallel-size 16 --distributed-executor-backend ray", "-dpb ray"})
    EXPECT_NE(with_map(flags, {{"EXTRA", backend_flag}}).inject().refused.find("over Ray"),
              std::string::npos);
  EXPECT_EQ(with_map(flags, {{"EXTRA", "--distributed-executor-backend mp"}}).inject().refused, "");
}

// Flags and models of a known value, with which vLLM takes no connector.
// covers F-239
TEST(ConfigMaps, FlagsForbiddingAConnectorPreventInjection) {
  const char* const script =
      "{command: [bash, -c, 'vllm serve m $EXTRA'], envFrom: [{configMapRef: {name: engine}}]}";
  for (const char* flags :
       {"--model openai/whisper-large-v3", "--prefix-match-unit 1 --no-enable-prefix-caching",
        "--backend=huggingface"}) {
    EXPECT_NE(with_map(script, {{"EXTRA", flags}})
                  .inject()
                  .refused.find("the variable EXTRA forbids a connector: "),
              std::string::npos)
        << flags;
    const std::string env = std::string("env: [{name: EXTRA, value: '") + flags + "'}]}";
    for (const std::string command :
         {"{command: [bash, -c, 'vllm serve m $EXTRA'], ", "{command: [vllm, serve, m, $(EXTRA)], ",
          "{command: [bash, -c, 'MORE=\"$EXTRA\"; vllm serve m $MORE'], "})
      EXPECT_NE(container_case(command + env).inject().refused, "") << command << flags;
  }
  const std::string whisper = "env: [{name: NAME, value: openai/whisper-large-v3}]}";
  for (const std::string model :
       {"{command: [bash, -c, 'vllm serve \"$NAME\"'], ", "{command: [vllm, serve, $(NAME)], ",
        "{command: [vllm, serve, --model, $(NAME)], ",
        "{command: [vllm, serve, --model=$(NAME)], "})
    EXPECT_NE(container_case(model + whisper).inject().refused.find("Whisper"), std::string::npos)
        << model;
  for (const std::string name :
       {"{command: [bash, -c, 'vllm serve m --served-model-name \"$NAME\"'], ",
        "{command: [vllm, serve, m, --served-model-name, $(NAME)], "})
    EXPECT_EQ(container_case(name + whisper).inject().refused, "") << name;
  EXPECT_EQ(with_map(script, {{"EXTRA", "--prefix-match-unit 1"}}).inject().refused, "");
}

// covers F-239
TEST(ConfigMaps, FlagsAreRead) {
  const char* const script =
      "{command: [bash, -c, 'vllm serve m $EXTRA'], envFrom: [{configMapRef: {name: engine}}]}";
  EXPECT_EQ(with_map(script, {{"EXTRA", "--enable-lora"}}).inject().refused, "");
  EXPECT_EQ(with_map(script, {{"OTHER", "x"}}).inject().refused, "") << "EXTRA is surely empty";
  EXPECT_NE(with_map(script, {{"EXTRA", "--kv-transfer-config {}"}})
                .inject()
                .refused.find("the variable EXTRA sets a connector"),
            std::string::npos);
  InjectionCase unread = with_map(script, {{"EXTRA", "--enable-lora"}});
  unread.config_maps.clear();
  EXPECT_NE(unread.inject().refused.find("envFrom may set the variable"), std::string::npos);
}

// A later entry replaces earlier ones, and env replaces both.
TEST(ConfigMaps, LastEntryWins) {
  const auto read = [](const std::string& name) {
    return name == "none" ? Object() : Object{{"data", {{"A", name}}}};
  };
  const auto value = [&](const std::string& container) {
    const Object pod = webhook::with_config_maps(container_case(container).pod, read);
    return webhook::variable_of(pod["spec"]["containers"][0], "A");
  };
  EXPECT_EQ(value("{envFrom: [{configMapRef: {name: x}}, {configMapRef: {name: y}}]}").text, "y");
  EXPECT_EQ(value("{envFrom: [{secretRef: {name: s}}, {configMapRef: {name: y}}]}").text, "y");
  EXPECT_EQ(value("{envFrom: [{configMapRef: {name: y}}, {secretRef: {name: s}}]}").kind,
            Kind::kUnread);
  EXPECT_EQ(value("{envFrom: [{configMapRef: {name: none}}]}").kind, Kind::kUnread);
  EXPECT_EQ(value("{envFrom: [{prefix: P_, configMapRef: {name: none}}]}").kind, Kind::kAbsent);
  EXPECT_EQ(value("{env: [{name: A, value: own}], envFrom: [{configMapRef: {name: x}}]}").text,
            "own");
}

// The data is for the injector alone, and a pod's own field `data` is not believed.
TEST(ConfigMaps, PatchOmitsTheData) {
  InjectionCase one = with_map(kServe, {{"SECRET_OF_OURS", "value"}});
  const webhook::Injection injection = one.inject();
  ASSERT_EQ(injection.refused, "");
  EXPECT_EQ(injection.patch.dump().find("SECRET_OF_OURS"), std::string::npos);
  const Object after = patched(one.pod, injection.patch);
  EXPECT_EQ(after["spec"]["containers"][0]["envFrom"], one.pod["spec"]["containers"][0]["envFrom"]);
  one.pod["spec"]["containers"][0]["envFrom"][0]["data"] = {{"RAY_ADDRESS", "head"}};
  EXPECT_EQ(one.inject().refused, "");
}

// Bounds: many names, a large map, another form.
TEST(ConfigMaps, AreBounded) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  Object& sources = one.pod["spec"]["containers"][0]["envFrom"];
  for (int i = 0; i < 40; ++i)
    sources.push_back({{"configMapRef", {{"name", "m" + std::to_string(i % 20)}}}});
  int asked = 0;
  webhook::with_config_maps(one.pod, [&asked](const std::string&) {
    ++asked;
    return Object{{"data", {{"A", "b"}}}};
  });
  EXPECT_EQ(asked, 8);
  const auto read_of = [&](const Object& map) {
    const Object pod =
        webhook::with_config_maps(one.pod, [&map](const std::string&) { return map; });
    return pod["spec"]["containers"][0]["envFrom"][0].contains("data");
  };
  EXPECT_TRUE(read_of({{"metadata", {{"name", "empty"}}}}));
  EXPECT_FALSE(read_of({{"data", {{"A", std::string(300u << 10, 'x')}}}}));
  EXPECT_FALSE(read_of({{"data", {{"A", 1}}}}));
  for (const char* text : {"null", "[]", "{}", R"({"spec":{"containers":[1,{"envFrom":[2]}]}})"})
    EXPECT_EQ(webhook::with_config_maps(Object::parse(text), nullptr), Object::parse(text));
}

// The injector copies the pod: one ConfigMap in many entries must not fill the operator's memory.
TEST(ConfigMaps, TheDataOfAllEntriesIsBounded) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  Object& sources = one.pod["spec"]["containers"][0]["envFrom"];
  for (int i = 0; i < 300; ++i) sources.push_back({{"configMapRef", {{"name", "engine"}}}});
  const Object map = {{"data", {{"A", std::string(100u << 10, 'x')}}}};
  const Object pod = webhook::with_config_maps(one.pod, [&map](const std::string&) { return map; });
  EXPECT_LT(pod.dump().size(), 300u << 10);
  const Object& container = pod["spec"]["containers"][0];
  EXPECT_TRUE(container["envFrom"][0].contains("data"));
  EXPECT_FALSE(container["envFrom"][2].contains("data"));
  EXPECT_EQ(webhook::variable_of(container, "A").kind, Kind::kUnread);
  Object many;
  for (int i = 0; i < 8000; ++i) many["A" + std::to_string(i)] = "";
  const Object small = {{"data", many}};
  EXPECT_FALSE(webhook::with_config_maps(one.pod,
                                         [&small](const std::string&) {
                                           return small;
                                         })["spec"]["containers"][0]["envFrom"][0]
                   .contains("data"))
      << "each value costs memory beside its text";
}

}  // namespace
}  // namespace larder::test
