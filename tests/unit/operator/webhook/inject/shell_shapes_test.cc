// What real shells make of a container before and after the injection: the engine gets what it got, and one flag with our JSON.
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/webhook/inject/connector_config.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/operator/webhook/inject/real_shell.h"

namespace larder::test {
namespace {

using api::Object;

const std::string kConfig = R"({"kv_connector":"LarderConnector","kv_connector_module_path":"larder.vllm","kv_role":"kv_both"})";

// Takes the flag and its value out of what an engine was given; "" where it is not there.
std::string take_flag(std::vector<std::string>& argv) {
  const auto flag = std::ranges::find(argv, "--kv-transfer-config");
  if (flag == argv.end() || flag + 1 == argv.end()) return "";
  const std::string value = *(flag + 1);
  argv.erase(flag, flag + 2);
  return value;
}

Object engine_of(const Object& pod) {
  return pod["spec"]["containers"][0];
}

struct Shape {
  const char* name;
  const char* container;  // YAML
};

class ShellShapes : public testing::TestWithParam<Shape> {};

TEST_P(ShellShapes, EngineGetsWhatItGotAndTheFlag) {
  const InjectionCase one = container_case(GetParam().container);
  RealShell shell;
  const auto before = shell.run(engine_of(one.pod));
  ASSERT_TRUE(shell.ended_well());
  ASSERT_FALSE(before.empty()) << "the shape starts no engine";
  const webhook::Injection injection = one.inject();
  ASSERT_EQ(injection.refused, "");
  const Object engine = engine_of(patched(one.pod, injection.patch));
  auto after = shell.run(engine);
  ASSERT_TRUE(shell.ended_well()) << engine.dump(1);
  ASSERT_EQ(after.size(), before.size()) << engine.dump(1);
  for (std::size_t at = 0; at < after.size(); ++at) {
    EXPECT_EQ(take_flag(after[at].argv), kConfig) << engine.dump(1);
    EXPECT_EQ(after[at].argv, before[at].argv) << engine.dump(1);
    const std::string rest = before[at].python_path.empty() ? "" : ":" + before[at].python_path;
    EXPECT_EQ(after[at].python_path, "/larder/python" + rest) << engine.dump(1);
  }
}

constexpr Shape kShapes[] = {
    {"exec", R"({command: [vllm, serve, /mnt/models, --port, "8000"]})"},
    {"command_and_args", R"({command: [vllm, serve], args: [/mnt/models, --port, "8000"]})"},
    {"args_for_the_entrypoint", R"({image: "vllm/vllm-openai:v0.32.0", args: [m, --max-model-len, "4096"]})"},
    {"python_module", R"({command: [python3, -m, vllm.entrypoints.openai.api_server], args: [--model, m]})"},
    {"python_with_options", R"({command: [python3, -u, -X, dev, -m, vllm.entrypoints.openai.api_server, --model, m]})"},
    {"huggingface", R"({command: [python3, -m, huggingfaceserver], args: [--model_name=hf, --backend=vllm]})"},
    {"env_in_front", R"({command: [env, HF_HUB_OFFLINE=1, vllm, serve, m]})"},
    {"after_two_dashes", R"({command: [vllm, serve, --port, "1", --, m]})"},
    {"kubernetes_variable", R"({command: [vllm, serve, $(MODEL)], env: [{name: MODEL, value: a b}]})"},
    {"config_file", R"({command: [vllm, serve, m, --config, /etc/vllm/config.yaml, --port, "8000"]})"},
    {"sh", R"({command: [sh, -c, "vllm serve m --port 8000"]})"},
    {"bash", R"({command: [/bin/bash, -c], args: ["vllm serve m --port 8000"]})"},
    {"bash_exec", R"({command: [bash, -c, "exec vllm serve 'a model' --port 8000"]})"},
    {"bash_options", R"({command: [bash, -euo, pipefail, -c, "vllm serve m"]})"},
    {"bash_login", R"({command: [bash, -lc, "vllm serve m"]})"},
    {"shell_in_args", R"({command: [env], args: [sh, -c, "vllm serve m"]})"},
    {"and", R"({command: [sh, -c, "cd / && true && vllm serve m && echo done"]})"},
    {"or", R"({command: [sh, -c, "false || vllm serve m"]})"},
    {"semicolon", R"({command: [sh, -c, "true; vllm serve m; true"]})"},
    {"pipe", R"({command: [sh, -c, "vllm serve m 2>&1 | cat"]})"},
    {"background", R"({command: [sh, -c, "vllm serve m & wait"]})"},
    {"redirected", R"({command: [sh, -c, "vllm serve m > log 2>&1"]})"},
    {"redirected_in_front", R"({command: [sh, -c, "> log vllm serve m"]})"},
    {"redirected_in_the_middle", R"({command: [sh, -c, "vllm serve m > log --port 1"]})"},
    {"bash_both_redirected", R"({command: [bash, -c, "vllm serve m &> log"]})"},
    {"process_substitution", R"({command: [bash, -c, "vllm serve m > >(cat)"]})"},
    {"subshell", R"({command: [sh, -c, "(cd / && vllm serve m)"]})"},
    {"group", R"({command: [sh, -c, "{ vllm serve m; }"]})"},
    {"comment_behind", R"({command: [sh, -c, "vllm serve m # it's the engine"]})"},
    {"assignment_in_front", R"({command: [sh, -c, "HF_HUB_OFFLINE=1 VLLM_X='a b' vllm serve m"]})"},
    {"quotes", R"({command: [sh, -c, "vllm serve \"$MODEL\" --chat-template '{\"a\": 1}'"], env: [{name: MODEL, value: a b}]})"},
    {"variables", R"({command: [sh, -c, "vllm serve $MODEL --port ${PORT:-8000}"], env: [{name: MODEL, value: m}]})"},
    {"variable_of_flags", R"({command: [sh, -c, "vllm serve m --port 1 $EXTRA"], env: [{name: EXTRA, value: --seed 1}]})"},
    {"empty_variable_of_flags", R"({command: [sh, -c, "vllm serve m --port 1 $EXTRA"]})"},
    {"value_of_an_option", R"({command: [sh, -c, "vllm serve m --port $PORT --seed 1"], env: [{name: PORT, value: "8"}]})"},
    {"only_variables", R"({command: [sh, -c, "vllm serve $ALL"], env: [{name: ALL, value: m --seed 1}]})"},
    {"positional", R"({command: [bash, -c, "vllm serve m \"$@\"", --], args: [--seed, "1", a b]})"},
    {"command_substitution", R"({command: [sh, -c, "vllm serve m --tensor-parallel-size $(echo 2) --seed 1"]})"},
    {"backticks", R"({command: [sh, -c, "vllm serve m --tensor-parallel-size `echo 2` --seed 1"]})"},
    {"arithmetic", R"({command: [bash, -c, "vllm serve m --rank $(( (1 + 2) * 3 ))"]})"},
    {"array", R"({command: [bash, -c, "a=(--seed 1); vllm serve m \"${a[@]}\""]})"},
    {"loop", R"({command: [bash, -c, "for p in 1 2; do vllm serve m --port $p & done; wait"]})"},
    {"script_module", R"({command: [sh, -c, "python3 -m vllm.entrypoints.openai.api_server --model m"]})"},
    {"path_of_vllm", R"({command: [sh, -c, "PATH=$PATH:/x; nohup vllm serve m"]})"},
    {"image_python_path", R"({command: [sh, -c, "vllm serve m"], env: [{name: PYTHONPATH, value: /app}]})"},
    {"exec_python_path", R"({command: [vllm, serve, m], env: [{name: PYTHONPATH, value: /app}]})"},
    {"dollars", R"({command: [sh, -c, "echo $$ > log; vllm serve m"]})"},
    {"eval", R"({command: [bash, -c, "eval \"vllm serve m --port 8000\""]})"},
    {"eval_without_quotes", R"({command: [bash, -c, "eval vllm serve m --port 8000"]})"},
    {"eval_in_single_quotes", R"({command: [bash, -c, "eval 'vllm serve m --port 8000'"]})"},
    {"eval_kserve", R"({command: [/bin/bash, -c, "eval \"exec vllm serve m ${VLLM_ADDITIONAL_ARGS} $@\"", --],
        args: [--seed, "1"], env: [{name: VLLM_ADDITIONAL_ARGS, value: "--port 8 --chat '{\"a\": \"b c\"}'"}]})"},
    {"eval_kserve_without_args", R"({command: [/bin/bash, -c, "eval \"exec vllm serve m ${VLLM_ADDITIONAL_ARGS} $@\"", --]})"},
    {"eval_words_apart", R"({command: [bash, -c, "eval \"vllm serve m --served-model-name \"q\" --port 1 $X\""]})"},
    {"shell_in_a_shell", R"({command: [bash, -c, "sh -c 'vllm serve m --port 1'"]})"},
    {"shell_in_a_shell_in_double_quotes", R"({command: [bash, -c, "exec sh -c \"vllm serve '$MODEL' --port 1\""],
        env: [{name: MODEL, value: m}]})"},
    {"eval_in_a_shell_in_a_shell", R"({command: [bash, -c, "bash -c 'eval \"vllm serve m --seed 1\"'"]})"},
    {"two_engines", R"({command: [bash, -c, "vllm serve a --port 1; vllm serve b --port 2"]})"},
    {"an_engine_in_each_branch", R"({command: [bash, -c, "if [ -n \"$HEAD\" ]; then vllm serve a; else vllm serve a --headless; fi"]})"},
    {"case", R"({command: [bash, -c, "case x in y) vllm serve y;; x) vllm serve x;; esac"]})"},
    {"lines", R"(
command: [/bin/bash, -c]
args:
- |
  set -e
  # The engine's own flags; it's quoted
  export VLLM_LOGGING_LEVEL=INFO
  cat <<EOF > notes
  vllm serve "not this one
  EOF
  vllm serve m \
    --port 8000 \
    --served-model-name "a b"
)"},
    {"function", R"(
command: [bash, -c]
args:
- |
  start() {
    vllm serve "$1" --port 8000
  }
  start m
)"},
};

INSTANTIATE_TEST_SUITE_P(All, ShellShapes, testing::ValuesIn(kShapes), [](const auto& one) { return one.param.name; });

// A connector that is there already comes first, and Larder beside it, wherever it was written.
class ShellConnectors : public testing::TestWithParam<Shape> {};

TEST_P(ShellConnectors, StayAndLarderIsBesideThem) {
  const InjectionCase one = container_case(GetParam().container);
  const webhook::Injection injection = one.inject();
  ASSERT_EQ(injection.refused, "");
  RealShell shell;
  const Object engine = engine_of(patched(one.pod, injection.patch));
  auto before = shell.run(engine_of(one.pod));
  auto after = shell.run(engine);
  ASSERT_EQ(before.size(), 1u);
  ASSERT_EQ(after.size(), 1u) << engine.dump(1);
  for (auto* starts : {&before, &after})  // the one form, to compare
    for (std::string& word : starts->front().argv)
      if (word.starts_with("--kv_transfer_config")) word.replace(0, 20, "--kv-transfer-config");
  const std::string was = take_flag(before[0].argv), is = take_flag(after[0].argv);
  EXPECT_EQ(is, *webhook::composed_config(was, 0)) << engine.dump(1);
  EXPECT_NE(is, was);
  EXPECT_EQ(after[0].argv, before[0].argv);
}

constexpr Shape kConnectors[] = {
    {"exec",
     R"({command: [vllm, serve, m, --kv-transfer-config, '{"kv_connector":"NixlConnector","kv_role":"kv_both"}', --port, "1"]})"},
    {"underscores",
     R"({command: [vllm, serve, m], args: [--kv_transfer_config, '{"kv_connector":"NixlConnector","kv_role":"kv_both"}']})"},
    {"script",
     R"({command: [sh, -c, "vllm serve m --kv-transfer-config '{\"kv_connector\":\"X\",\"kv_role\":\"kv_both\"}' --port 1"]})"},
    {"script_in_double_quotes",
     R"({command: [sh, -c, 'vllm serve m --kv-transfer-config "{\"kv_connector\":\"X\",\"kv_role\":\"kv_both\"}"']})"},
    {"with_an_apostrophe",
     R"({command: [sh, -c, "vllm serve m --kv-transfer-config \"{\\\"kv_connector\\\":\\\"it's\\\",\\\"kv_role\\\":\\\"kv_both\\\"}\""]})"},
    {"eval",
     R"({command: [bash, -c, 'eval "vllm serve m --kv-transfer-config ''{\"kv_connector\":\"X\",\"kv_role\":\"kv_both\"}'' $@"', --]})"},
    {"kserve_variable", R"({command: [bash, -c, 'eval "vllm serve m ${VLLM_ADDITIONAL_ARGS} $@"', --],
        env: [{name: VLLM_ADDITIONAL_ARGS,
               value: "--port 1 --kv_transfer_config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}' --seed 1"}]})"},
    {"kserve_args", R"({command: [bash, -c, 'eval "vllm serve m ${VLLM_ADDITIONAL_ARGS} $@"', --],
        args: [--kv-transfer-config, "'{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}'"]})"},
    {"positional", R"({command: [bash, -c, 'vllm serve m "$@"', --],
        args: [--kv-transfer-config, '{"kv_connector":"NixlConnector","kv_role":"kv_both"}']})"},
};

INSTANTIATE_TEST_SUITE_P(All, ShellConnectors, testing::ValuesIn(kConnectors), [](const auto& one) { return one.param.name; });

// What cannot be seen wins over ours: it comes later.
TEST(HiddenConnector, OfAVariableThatNobodySeesWins) {
  const InjectionCase one = container_case(R"({command: [bash, -c, "vllm serve m --port 1 $EXTRA"]})");
  Object engine = engine_of(patched(one.pod, one.inject().patch));
  engine["env"].push_back({{"name", "EXTRA"}, {"value", "--kv-transfer-config {}"}});
  RealShell shell;
  const auto starts = shell.run(engine);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].argv.back(), "{}");
}

TEST(PythonPath, OfTheImageStaysInScripts) {
  const InjectionCase one = container_case(R"({command: [sh, -c, "vllm serve m"]})");
  RealShell shell;
  const auto starts = shell.run(engine_of(patched(one.pod, one.inject().patch)), {}, {{"PYTHONPATH", "/image"}});
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].python_path, "/larder/python:/image");
}

}  // namespace
}  // namespace larder::test
