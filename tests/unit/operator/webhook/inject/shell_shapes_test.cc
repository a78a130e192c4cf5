// The starts of real shells for a container before and after the injection: the engine gets its old
// words, and one flag with our JSON.
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/webhook/inject/connector_config.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/operator/webhook/inject/real_shell.h"

namespace larder::test {
namespace {

using api::Object;

const std::string kConfig =
    R"Y({"kv_connector":"LarderConnector","kv_connector_module_path":"larder.vllm",)Y"
    R"Y("kv_role":"kv_both"})Y";

// Takes the flag and its value out of an engine's words; "" if the flag is not there.
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
  const char* container;         // YAML
  const char* images_path = "";  // of PYTHONPATH, the image's value, which the injector repeats
};

constexpr const char* kServersPath = ":/kserve-workspace/huggingfaceserver:/huggingfaceserver";

class ShellShapes : public testing::TestWithParam<Shape> {};

// covers F-307
TEST_P(ShellShapes, EngineKeepsItsArgumentsAndGetsTheFlag) {
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
    EXPECT_EQ(after[at].python_path, std::string("/larder/python") + GetParam().images_path + rest)
        << engine.dump(1);
  }
}

// A command whose effect on PYTHONPATH the script does not show.
constexpr Shape kUnseenPaths[] = {
    {"sourced",
     R"Y({command: [sh, -c, "printf PYTHON%s=/conf PATH > env; set -a; . ./env; set +a; )Y"
     R"Y(exec vllm serve m"]})Y"},
    {"sourced_and_checked",
     R"Y({command: [bash, -c, "printf 'export PYTHON%s=/conf' PATH > env; source ./env && )Y"
     R"Y(A=1 exec vllm serve m --port 1"]})Y"},
    {"sourced_and_timed",
     R"Y({command: [bash, -c, "printf 'export PYTHON%s=/conf' PATH > env; . ./env; )Y"
     R"Y(time timeout 99 python3 -m vllm.entrypoints.openai.api_server --model m"]})Y"},
    {"read", R"Y({command: [bash, -c, "read PYTHONPATH <<< /read; export PYTHONPATH; )Y"
             R"Y(vllm serve m"]})Y"},
    {"printf", R"Y({command: [bash, -c, "printf -v PYTHONPATH %s /print; export PYTHONPATH; )Y"
               R"Y(vllm serve m"]})Y"},
    {"loop", R"Y({command: [bash, -c, "export PYTHONPATH; for PYTHONPATH in /a /b; do )Y"
             R"Y(vllm serve m; done"]})Y"},
    {"local", R"Y({command: [bash, -c, "f() { local PYTHONPATH; vllm serve m; }; f"]})Y"},
    {"eval_of_an_output",
     R"Y({command: [bash, -c, "eval \"$(echo export PYTHONPATH=/eval)\"; vllm serve m"]})Y"},
    {"export_of_an_output",
     R"Y({command: [bash, -c, "export $(echo PYTHONPATH=/out); vllm serve m"]})Y"},
    {"eval_of_the_engine",
     R"Y({command: [bash, -c, "printf 'export PYTHON%s=/conf' PATH > env; . ./env; )Y"
     R"Y(eval \"exec vllm serve m\""]})Y"},
    {"shell_in_a_shell",
     R"Y({command: [bash, -c, "printf 'export PYTHON%s=/conf' PATH > env; . ./env; )Y"
     R"Y(sh -c 'vllm serve m'; vllm serve n"]})Y"},
};

INSTANTIATE_TEST_SUITE_P(UnseenPaths, ShellShapes, testing::ValuesIn(kUnseenPaths),
                         [](const auto& one) { return one.param.name; });

constexpr Shape kShapes[] = {
    {"exec", R"Y({command: [vllm, serve, /mnt/models, --port, "8000"]})Y"},
    {"command_and_args", R"Y({command: [vllm, serve], args: [/mnt/models, --port, "8000"]})Y"},
    {"args_for_the_entrypoint",
     R"Y({image: "vllm/vllm-openai:v0.32.0", args: [m, --max-model-len, "4096"]})Y"},
    {"python_module",
     R"Y({command: [python3, -m, vllm.entrypoints.openai.api_server], args: [--model, m]})Y"},
    {"python_with_options",
     R"Y({command: [python3, -u, -X, dev, -m, vllm.entrypoints.openai.api_server, --model, m]})Y"},
    {"huggingface",
     R"Y({command: [python3, -m, huggingfaceserver], args: [--model_name=hf, --backend=vllm]})Y",
     kServersPath},
    {"env_in_front", R"Y({command: [env, HF_HUB_OFFLINE=1, vllm, serve, m]})Y"},
    {"after_two_dashes", R"Y({command: [vllm, serve, --port, "1", --, m]})Y"},
    {"kubernetes_variable",
     R"Y({command: [vllm, serve, $(MODEL)], env: [{name: MODEL, value: a b}]})Y"},
    {"sh", R"Y({command: [sh, -c, "vllm serve m --port 8000"]})Y"},
    {"bash", R"Y({command: [/bin/bash, -c], args: ["vllm serve m --port 8000"]})Y"},
    {"bash_exec", R"Y({command: [bash, -c, "exec vllm serve 'a model' --port 8000"]})Y"},
    {"bash_options", R"Y({command: [bash, -euo, pipefail, -c, "vllm serve m"]})Y"},
    {"bash_long_option", R"Y({command: [bash, --norc, -ec, "vllm serve m"]})Y"},
    {"shell_in_args", R"Y({command: [env], args: [sh, -c, "vllm serve m"]})Y"},
    {"and", R"Y({command: [sh, -c, "cd / && true && vllm serve m && echo done"]})Y"},
    {"or", R"Y({command: [sh, -c, "false || vllm serve m"]})Y"},
    {"semicolon", R"Y({command: [sh, -c, "true; vllm serve m; true"]})Y"},
    {"pipe", R"Y({command: [sh, -c, "vllm serve m 2>&1 | cat"]})Y"},
    {"background", R"Y({command: [sh, -c, "vllm serve m & wait"]})Y"},
    {"redirected", R"Y({command: [sh, -c, "vllm serve m > log 2>&1"]})Y"},
    {"redirected_in_front", R"Y({command: [sh, -c, "> log vllm serve m"]})Y"},
    {"redirected_in_the_middle", R"Y({command: [sh, -c, "vllm serve m > log --port 1"]})Y"},
    {"bash_both_redirected", R"Y({command: [bash, -c, "vllm serve m &> log"]})Y"},
    {"process_substitution", R"Y({command: [bash, -c, "vllm serve m > >(cat)"]})Y"},
    {"subshell", R"Y({command: [sh, -c, "(cd / && vllm serve m)"]})Y"},
    {"group", R"Y({command: [sh, -c, "{ vllm serve m; }"]})Y"},
    {"comment_behind", R"Y({command: [sh, -c, "vllm serve m # it's the engine"]})Y"},
    {"assignment_in_front",
     R"Y({command: [sh, -c, "HF_HUB_OFFLINE=1 VLLM_X='a b' vllm serve m"]})Y"},
    {"quotes", R"Y({command: [sh, -c, "vllm serve \"$MODEL\" --chat-template '{\"a\": 1}'"], )Y"
               R"Y(env: [{name: MODEL, value: a b}]})Y"},
    {"variables",
     R"Y({command: [sh, -c, "vllm serve $MODEL --port ${PORT:-8000}"], env: [{name: MODEL, )Y"
     R"Y(value: m}]})Y"},
    {"variable_of_flags",
     R"Y({command: [sh, -c, "vllm serve m --port 1 $EXTRA"], env: [{name: EXTRA, )Y"
     R"Y(value: --seed 1}]})Y"},
    {"empty_variable_of_flags", R"Y({command: [sh, -c, "vllm serve m --port 1 $EXTRA"]})Y"},
    {"value_of_an_option",
     R"Y({command: [sh, -c, "vllm serve m --port $PORT --seed 1"], env: [{name: PORT, )Y"
     R"Y(value: "8"}]})Y"},
    {"only_variables",
     R"Y({command: [sh, -c, "vllm serve $ALL"], env: [{name: ALL, value: m --seed 1}]})Y"},
    {"positional",
     R"Y({command: [bash, -c, "vllm serve m \"$@\"", --], args: [--seed, "1", a b]})Y"},
    {"command_substitution",
     R"Y({command: [sh, -c, "vllm serve m --tensor-parallel-size $(echo 2) --seed 1"]})Y"},
    {"backticks",
     R"Y({command: [sh, -c, "vllm serve m --tensor-parallel-size `echo 2` --seed 1"]})Y"},
    {"arithmetic", R"Y({command: [bash, -c, "vllm serve m --rank $(( (1 + 2) * 3 ))"]})Y"},
    {"array", R"Y({command: [bash, -c, "a=(--seed 1); vllm serve m \"${a[@]}\""]})Y"},
    {"loop", R"Y({command: [bash, -c, "for p in 1 2; do vllm serve m --port $p; done"]})Y"},
    {"script_module",
     R"Y({command: [sh, -c, "python3 -m vllm.entrypoints.openai.api_server --model m"]})Y"},
    {"path_of_vllm", R"Y({command: [sh, -c, "PATH=$PATH:/x; nohup vllm serve m"]})Y"},
    {"image_python_path",
     R"Y({command: [sh, -c, "vllm serve m"], env: [{name: PYTHONPATH, value: /app}]})Y"},
    {"exec_python_path",
     R"Y({command: [vllm, serve, m], env: [{name: PYTHONPATH, value: /app}]})Y"},
    {"dollars", R"Y({command: [sh, -c, "echo $$ > log; vllm serve m"]})Y"},
    {"eval", R"Y({command: [bash, -c, "eval \"vllm serve m --port 8000\""]})Y"},
    {"eval_without_quotes", R"Y({command: [bash, -c, "eval vllm serve m --port 8000"]})Y"},
    {"eval_in_single_quotes", R"Y({command: [bash, -c, "eval 'vllm serve m --port 8000'"]})Y"},
    {"eval_kserve",
     R"Y({command: [/bin/bash, -c, "eval \"exec vllm serve m ${VLLM_ADDITIONAL_ARGS} $@\"", --],
        args: [--seed, "1"], env: [{name: VLLM_ADDITIONAL_ARGS, value: "--port 8 --chat '{\"a\": \"b c\"}'"}]})Y"},
    {"eval_kserve_without_args",
     R"Y({command: [/bin/bash, -c, )Y"
     R"Y("eval \"exec vllm serve m ${VLLM_ADDITIONAL_ARGS} $@\"", --]})Y"},
    {"eval_words_apart",
     R"Y({command: [bash, -c, "eval \"vllm serve m --served-model-name \"q\" --port 1 $X\""]})Y"},
    {"shell_in_a_shell", R"Y({command: [bash, -c, "sh -c 'vllm serve m --port 1'"]})Y"},
    {"shell_in_a_shell_in_double_quotes",
     R"Y({command: [bash, -c, "exec sh -c \"vllm serve '$MODEL' --port 1\""],
        env: [{name: MODEL, value: m}]})Y"},
    {"eval_in_a_shell_in_a_shell",
     R"Y({command: [bash, -c, "bash -c 'eval \"vllm serve m --seed 1\"'"]})Y"},
    {"array_of_all",
     R"Y({command: [bash, -c, "a=(m --port 1); a+=(--seed 1); exec vllm serve \"${a[@]}\""]})Y"},
    {"array_of_the_command",
     R"Y({command: [bash, -c, "c=(vllm serve m); c+=(--port \"$PORT\"); exec \"${c[@]}\" --seed 1"],
        env: [{name: PORT, value: "1"}]})Y"},
    {"array_over_lines", R"Y(
command: [bash, -c]
args:
- |
  local_args=(
    m   # the model; it's small
    --port 1
  )
  vllm serve "${local_args[@]}"
)Y"},
    {"assignment_of_a_variable",
     R"Y({command: [bash, -c, "CUDA_VISIBLE_DEVICES=$GPU exec vllm serve m"]})Y"},
    {"assignments_of_all_kinds",
     R"Y({command: [bash, -c, "A=\"$(date)\" B+=x C[0]=$GPU D=`date` vllm serve m"]})Y"},
    {"assignment_of_a_variable_by_env",
     R"Y({command: [sh, -c, "env CUDA_VISIBLE_DEVICES=$GPU vllm serve m"]})Y"},
    {"arguments_run", R"Y({command: [sh, -c, 'ulimit -c 0; exec "$@"', --, vllm, serve, m]})Y"},
    {"arguments_run_in_args",
     R"Y({command: [bash, -c, 'set -eo pipefail; A=$(date) nice "$@"', x], args: [vllm, serve, )Y"
     R"Y(m, --seed, "1"]})Y"},
    {"timeout", R"Y({command: [timeout, "3600", vllm, serve, m]})Y"},
    {"timeout_in_a_script",
     R"Y({command: [sh, -c, "timeout -k 5 3600 nice -n 1 stdbuf -oL vllm serve m"]})Y"},
    {"function_by_its_word",
     R"Y({command: [bash, -c, "function go { vllm serve $1 --port 1; }; go m"]})Y"},
    {"two_engines", R"Y({command: [bash, -c, "vllm serve a --port 1; vllm serve b --port 2"]})Y"},
    {"an_engine_in_each_branch",
     R"Y({command: [bash, -c, "if [ -n \"$HEAD\" ]; then vllm serve a; )Y"
     R"Y(else vllm serve a --headless; fi"]})Y"},
    {"case", R"Y({command: [bash, -c, "case x in y) vllm serve y;; x) vllm serve x;; esac"]})Y"},
    {"lines", R"Y(
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
)Y"},
    {"function", R"Y(
command: [bash, -c]
args:
- |
  start() {
    vllm serve "$1" --port 8000
  }
  start m
)Y"},
};

INSTANTIATE_TEST_SUITE_P(All, ShellShapes, testing::ValuesIn(kShapes),
                         [](const auto& one) { return one.param.name; });

// A present connector comes first, and Larder beside it, wherever the flag was written.
class ShellConnectors : public testing::TestWithParam<Shape> {};

TEST_P(ShellConnectors, UserConnectorStaysAndLarderIsAdded) {
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
     R"Y({command: [vllm, serve, m, --kv-transfer-config, '{"kv_connector":"NixlConnector",)Y"
     R"Y("kv_role":"kv_both"}', --port, "1"]})Y"},
    {"underscores", R"Y({command: [vllm, serve, m], args: [--kv_transfer_config, )Y"
                    R"Y('{"kv_connector":"NixlConnector","kv_role":"kv_both"}']})Y"},
    {"script",
     R"Y({command: [sh, -c, "vllm serve m --kv-transfer-config '{\"kv_connector\":\"X\",)Y"
     R"Y(\"kv_role\":\"kv_both\"}' --port 1"]})Y"},
    {"script_in_double_quotes",
     R"Y({command: [sh, -c, 'vllm serve m --kv-transfer-config "{\"kv_connector\":\"X\",)Y"
     R"Y(\"kv_role\":\"kv_both\"}"']})Y"},
    {"with_an_apostrophe",
     R"Y({command: [sh, -c, "vllm serve m --kv-transfer-config )Y"
     R"Y(\"{\\\"kv_connector\\\":\\\"it's\\\",\\\"kv_role\\\":\\\"kv_both\\\"}\""]})Y"},
    {"eval",
     R"Y({command: [bash, -c, 'eval "vllm serve m --kv-transfer-config ''{\"kv_connector\":\"X\",)Y"
     R"Y(\"kv_role\":\"kv_both\"}'' $@"', --]})Y"},
    {"kserve_variable",
     R"Y({command: [bash, -c, 'eval "vllm serve m ${VLLM_ADDITIONAL_ARGS} $@"', --],
        env: [{name: VLLM_ADDITIONAL_ARGS,
               value: "--port 1 --kv_transfer_config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}' --seed 1"}]})Y"},
    {"kserve_args", R"Y({command: [bash, -c, 'eval "vllm serve m ${VLLM_ADDITIONAL_ARGS} $@"', --],
        args: [--kv-transfer-config, "'{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}'"]})Y"},
    {"positional", R"Y({command: [bash, -c, 'vllm serve m "$@"', --],
        args: [--kv-transfer-config, '{"kv_connector":"NixlConnector","kv_role":"kv_both"}']})Y"},
};

INSTANTIATE_TEST_SUITE_P(All, ShellConnectors, testing::ValuesIn(kConnectors),
                         [](const auto& one) { return one.param.name; });

// The value of an option is one value: ours comes before, so that the user's value wins in any
// case.
TEST(HiddenConnector, InOptionValueWins) {
  const InjectionCase one =
      container_case(R"Y({command: [bash, -c, "vllm serve m --port $PORT"]})Y");
  Object engine = engine_of(patched(one.pod, one.inject().patch));
  engine["env"].push_back({{"name", "PORT"}, {"value", "1 --kv-transfer-config {}"}});
  RealShell shell;
  const auto starts = shell.run(engine);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].argv.back(), "{}");
}

// KServe's LLMInferenceService puts the connector of its kvCacheOffloading into a variable of its
// script, where that connector would win.
TEST(HiddenConnector, InScriptVariableIsReported) {
  const InjectionCase offloading = container_case(R"Y({command: [bash, -c, 'if true; then
      ARGS="--kv-transfer-config ''{\"kv_connector\":\"OffloadingConnector\"}''"; fi; eval "vllm serve m ${ARGS} $@"', --]})Y");
  EXPECT_NE(offloading.inject().refused.find("ARGS (KServe: kvCacheOffloading)"), std::string::npos)
      << offloading.inject().refused;
  for (const char* assignment : {"A=--kv-transfer-config={}", "export A='--kv_transfer_config {}'",
                                 "A+=' --kv-offloading-size 4'"}) {
    const InjectionCase one = container_case(std::string("{command: [bash, -c, \"") + assignment +
                                             "; vllm serve m $A\"]}");
    EXPECT_NE(one.inject().refused.find("sets a connector in the variable A; "), std::string::npos)
        << one.inject().refused;
  }
}

// KServe's script names the flag in a test, and leaves the variable empty without
// kvCacheOffloading.
TEST(HiddenConnector, InEmptyOrUnusedVariableIsIgnored) {
  for (const char* script : {R"(A=''; [[ $* != *--kv-transfer-config* ]] && A=''; vllm serve m $A)",
                             R"(A='--kv-transfer-config {}'; vllm serve m)"}) {
    InjectionCase one = container_case("{command: [bash, -c, x]}");
    one.pod["spec"]["containers"][0]["command"][2] = script;
    EXPECT_EQ(one.inject().refused, "") << script;
  }
}

TEST(PythonPath, ImagePathStaysInScripts) {
  const InjectionCase one = container_case(R"Y({command: [sh, -c, "vllm serve m"]})Y");
  RealShell shell;
  const auto starts =
      shell.run(engine_of(patched(one.pod, one.inject().patch)), {}, {{"PYTHONPATH", "/image"}});
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].python_path, "/larder/python:/image");
}

std::string injected_path(const char* container) {
  const InjectionCase one = container_case(container);
  const Object engine = engine_of(patched(one.pod, one.inject().patch));
  for (const Object& variable : engine.at("env"))
    if (variable.at("name") == "PYTHONPATH") return variable.at("value").get<std::string>();
  return "";
}

// Without it the image's entrypoint, python3 -m huggingfaceserver, finds no such module.
TEST(PythonPath, KServeHuggingFacePathIsRepeated) {
  const std::string all = std::string("/larder/python") + kServersPath;
  EXPECT_EQ(
      injected_path("{image: 'kserve/huggingfaceserver:v0.20.0-gpu', args: [--model_name=m]}"),
      all);
  EXPECT_EQ(injected_path(
                "{image: 'registry:5000/a/huggingfaceserver@sha256:0', args: [--model_name=m]}"),
            all);
  EXPECT_EQ(
      injected_path(
          "{image: 'a/ours:1', command: [python3, -m, huggingfaceserver], args: [--backend=vllm]}"),
      all);
  EXPECT_EQ(
      injected_path(
          "{image: 'kserve/huggingfaceserver:1', args: [a], envFrom: [{configMapRef: {name: c}}]}"),
      std::string("/larder/python:$(PYTHONPATH)") + kServersPath);
  EXPECT_EQ(injected_path("{image: 'kserve/huggingfaceserver:1', args: [a], env: [{name: "
                          "PYTHONPATH, value: /app}]}"),
            "/larder/python:/app")
      << "a user who sets the entrypoint knows the needs of the image";
  EXPECT_EQ(injected_path("{image: 'vllm/vllm-openai:1', args: [--max-model-len, '1']}"),
            "/larder/python");
}

}  // namespace
}  // namespace larder::test
