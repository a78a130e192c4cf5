// A connector of the user's own is never lost: if a connector may reach vLLM by an unreadable way,
// the pod is left alone. Real shells show vLLM's words; vLLM takes the last --kv-transfer-config.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/operator/webhook/inject/real_shell.h"

namespace larder::test {
namespace {

using api::Object;

// $KV of each container here, as a ConfigMap or the image would give it.
const std::map<std::string, std::string> kOutside{
    {"KV", R"({"kv_connector":"Users","kv_role":"kv_both"})"},
    {"OUTSIDE", R"(--kv-transfer-config {"kv_connector":"Users"})"},
    {"WHOLE", R"(m --kv-transfer-config {"kv_connector":"Users"})"},
    {"ONE", R"(--kv-transfer-config={"kv_connector":"Users"})"}};

struct Form {
  const char* name;
  const char* script;  // of bash, with the variables of envFrom
};

class UsersConnector : public testing::TestWithParam<Form> {};

std::string last_config(const std::vector<std::string>& argv) {
  std::string last;
  for (std::size_t at = 0; at < argv.size(); ++at) {
    if ((argv[at] == "--kv-transfer-config" || argv[at] == "--kv_transfer_config") &&
        at + 1 < argv.size())
      last = argv[at + 1];
    if (argv[at].starts_with("--kv-transfer-config=")) last = argv[at].substr(21);
  }
  return last;
}

// covers F-239
TEST_P(UsersConnector, IsNotLost) {
  InjectionCase one =
      container_case("{command: [bash, -c, x, sh], envFrom: [{configMapRef: {name: c}}]}");
  Object& engine = one.pod["spec"]["containers"][0];
  engine["command"][2] = GetParam().script;
  RealShell shell;
  const auto before = shell.run(engine, {}, kOutside);
  ASSERT_EQ(before.size(), 1u) << "the form starts no engine";
  ASSERT_NE(last_config(before[0].argv).find("Users"), std::string::npos)
      << "the form gives vLLM no connector";
  const webhook::Injection injection = one.inject();
  EXPECT_NE(injection.refused, "");
  EXPECT_NE(injection.refused.find("; "), std::string::npos) << injection.refused;
  const Object after = patched(one.pod, injection.patch);
  const auto starts = shell.run(after["spec"]["containers"][0], {}, kOutside);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_NE(last_config(starts[0].argv).find("Users"), std::string::npos)
      << "lost: " << last_config(starts[0].argv);
}

constexpr Form kForms[] = {
    {"array", R"(A=(m --port 1); A+=(--kv-transfer-config "$KV"); exec vllm serve "${A[@]}")"},
    {"array_with_the_value",
     R"(A=(m --kv-transfer-config='{"kv_connector":"Users"}'); exec vllm serve "${A[@]}")"},
    {"array_behind", R"(A=(--port 1 --kv-transfer-config "$KV"); vllm serve m "${A[@]}")"},
    {"array_over_lines",
     "A=(\n  m  # the model\n  --port 1\n)\nA+=(\n  --kv-transfer-config \"$KV\"\n)\nvllm serve "
     "\"${A[@]}\""},
    {"array_of_a_variable", R"(A=(m); A+=($OUTSIDE); vllm serve "${A[@]}")"},
    {"array_by_elements", R"(A[0]=m; A[1]=--kv-transfer-config; A[2]="$KV"; vllm serve "${A[@]}")"},
    {"array_declared", R"(declare -a A=(m --kv-transfer-config "$KV"); vllm serve ${A[*]})"},
    {"array_of_the_command",
     R"(C=(vllm serve m --port 1); C+=(--kv-transfer-config "$KV"); exec "${C[@]}")"},
    {"array_of_the_command_and_more", R"(C=(vllm serve m); "${C[@]}" --kv-transfer-config "$KV")"},
    {"array_of_the_command_and_a_variable", R"(C=(vllm serve m); "${C[@]}" $OUTSIDE)"},
    {"array_read", R"(mapfile -t A <<< "$ONE"; vllm serve m "${A[@]}")"},
    {"first_word", "vllm serve $WHOLE"},
    {"first_word_of_a_module", "python3 -m vllm.entrypoints.openai.api_server $OUTSIDE"},
    {"first_word_of_a_module_quoted", R"(python3 -m vllm.entrypoints.openai.api_server "$ONE")"},
    {"last_word", "vllm serve m --port 1 $OUTSIDE"},
    {"quoted_word", R"(vllm serve m "$ONE")"},
    {"behind_a_switch", "vllm serve m --trust-remote-code $OUTSIDE"},
    {"value_only", R"(vllm serve m --kv-transfer-config "$KV")"},
    {"value_in_the_same_word", R"(vllm serve m --kv-transfer-config="$KV")"},
    {"by_another_variable", "A=\"$OUTSIDE\"; B=$A; vllm serve m $B"},
    {"by_a_default", "vllm serve m ${EXTRA:-$OUTSIDE}"},
    {"by_a_default_written_out",
     "vllm serve m ${EXTRA:---kv-transfer-config '{\"kv_connector\":\"Users\"}'}"},
    {"by_its_name", "N=OUTSIDE; vllm serve m ${!N}"},
    {"by_a_reference", "declare -n R=OUTSIDE; vllm serve m $R"},
    {"set", R"(set -- m --kv-transfer-config "$KV"; vllm serve "$@")"},
    {"set_of_a_variable", "set -- $OUTSIDE; vllm serve m \"$@\""},
    {"function", R"(run() { vllm serve m "$@"; }; run --kv-transfer-config "$KV")"},
    {"function_by_its_word", R"(function run { vllm serve m $1; }; run "$OUTSIDE")"},
    {"loop", R"(for f in "$OUTSIDE"; do vllm serve m $f; done)"},
    {"command_substitution", "vllm serve m $(echo \"$OUTSIDE\")"},
    {"backticks", "vllm serve m `echo \"$OUTSIDE\"`"},
    {"by_an_output", "A=$(echo \"$OUTSIDE\"); vllm serve m $A"},
    {"by_a_file", "echo \"A='$OUTSIDE'\" > flags; . ./flags; vllm serve m $A"},
    {"by_a_file_over_a_known_value",
     "A=; echo \"A='$OUTSIDE'\" > flags; source ./flags; vllm serve m $A"},
    {"by_an_export_of_words", "A=; export $(echo A=\"$ONE\"); vllm serve m $A"},
    {"by_an_eval", "A=; eval \"$(echo A=\\'$OUTSIDE\\')\"; vllm serve m $A"},
    {"in_an_eval", "eval \"vllm serve m $ONE\""},
    {"read", "read -r A <<< \"$OUTSIDE\"; vllm serve m $A"},
    {"printf", "printf -v A %s \"$OUTSIDE\"; vllm serve m $A"},
    {"here_document", "read -r -d '' A <<E || true\n$OUTSIDE\nE\nvllm serve m $A"},
    {"xargs", "echo m \"$ONE\" | tr -d '\"' | xargs vllm serve"},
    {"only_perhaps_replaced", "[ -z \"$OUTSIDE\" ] && OUTSIDE=; vllm serve m $OUTSIDE"},
    {"replaced_in_a_branch", "if false; then OUTSIDE=; fi; vllm serve m $OUTSIDE"},
    {"replaced_in_a_subshell", "(OUTSIDE=); vllm serve m $OUTSIDE"},
    {"replaced_for_another", "OUTSIDE= true; vllm serve m $OUTSIDE"},
    {"replaced_by_itself", "OUTSIDE=${OUTSIDE:-}; vllm serve m $OUTSIDE"},
    {"replaced_by_itself_and_first", "WHOLE=${WHOLE:-m}; vllm serve $WHOLE"},
    {"replaced_by_another_of_it", "B=$OUTSIDE; OUTSIDE=$B; vllm serve m $OUTSIDE"},
    {"replaced_too_late", "A=$OUTSIDE; OUTSIDE=; vllm serve m $A"},
    {"replaced_too_late_for_set", "set -- $OUTSIDE; OUTSIDE=; vllm serve m \"$@\""},
    {"replaced_behind_it", "vllm serve m $OUTSIDE; OUTSIDE="},
    {"added_to", "OUTSIDE+=' --seed 1'; vllm serve m $OUTSIDE"},
    {"ansi_quotes", R"(vllm serve m $'--kv-transfer-config={"kv_connector":"Users"}')"},
    {"in_pieces", "P=--kv-transfer; vllm serve m ${P}-config \"$KV\""},
    {"in_braces", R"(vllm serve m {--kv-transfer-config,'{"kv_connector":"Users"}'})"},
    {"in_braces_with_underscores",
     R"(vllm serve m {--kv_transfer_config,'{"kv_connector":"Users"}'})"},
    {"in_braces_in_pieces", R"(vllm serve m --{kv-transfer-config,}='{"kv_connector":"Users"}')"},
    {"behind_a_switch_of_metrics", R"(vllm serve m --kv-cache-metrics "$ONE")"},
    {"second_of_a_list", R"(vllm serve m --served-model-name a "$ONE")"},
    {"in_a_shell", "sh -c \"vllm serve m $ONE\""},
    {"a_list_of_names", R"(vllm serve m --served-model-name a $OUTSIDE)"},
};

INSTANTIATE_TEST_SUITE_P(All, UsersConnector, testing::ValuesIn(kForms),
                         [](const auto& one) { return one.param.name; });

// Words without a shell, and variables whose value the pod does not have.
// covers F-239
TEST(UsersConnectors, ThatKubernetesPutsThereAreNotLost) {
  for (const char* container :
       {"{command: [vllm, serve, m, $(A)], env: [{name: A, valueFrom: {configMapKeyRef: {name: c, "
        "key: k}}}]}",
        "{command: [vllm, serve, m, $(A)], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, m, $(A)], env: [{name: B, value: '--kv-transfer-config={}'}, "
        "{name: A, value: $(B)}]}",
        "{command: [python3, -m, vllm.entrypoints.openai.api_server, $(A)], envFrom: [{secretRef: "
        "{name: c}}]}",
        "{image: 'vllm/vllm-openai:1', args: [m, --port, '1', $(A)], envFrom: [{configMapRef: "
        "{name: c}}]}",
        "{image: 'vllm/vllm-openai:1', args: [m, --port, '1', $(A)], env: [{name: A, valueFrom: "
        "{fieldRef: {fieldPath: \"metadata.annotations['a']\"}}}]}",
        "{command: [sh, -c, 'vllm serve m $(A)'], env: [{name: A, valueFrom: {secretKeyRef: {name: "
        "c, key: k}}}]}",
        "{command: [sh, -c, 'vllm serve m $A'], env: [{name: B, valueFrom: {secretKeyRef: {name: "
        "c, key: k}}}, {name: A, value: $(B)}]}",
        "{command: [sh, -c, 'vllm serve m \"$@\"', --], args: [$(A)], envFrom: [{configMapRef: "
        "{name: c}}]}",
        "{command: [vllm, serve, m, --kv-cache-metrics, $(A)], envFrom: [{configMapRef: {name: "
        "c}}]}",
        "{command: [vllm, serve, m, --enable-log-requests, $(A)], envFrom: [{configMapRef: {name: "
        "c}}]}",
        "{command: [vllm, serve, m, --a-switch-of-tomorrow, $(A)], envFrom: [{configMapRef: {name: "
        "c}}]}",
        "{command: [vllm, serve, m, --hf-token, $(A)], envFrom: [{configMapRef: {name: c}}]}",
        "{command: [vllm, serve, m, --served-model-name, a, $(A)], envFrom: [{configMapRef: {name: "
        "c}}]}",
        "{command: [vllm, serve, m, '--kv-$(A)-config', '{}'], envFrom: [{configMapRef: {name: "
        "c}}]}",
        "{command: [vllm, serve, m, --config, /etc/flags.yaml]}",
        "{command: [vllm, serve, m, --config=/etc/flags.yaml]}",
        "{command: [sh, -c, 'vllm serve m --config $FILE']}",
        "{command: [sh, -c, 'vllm serve m $A'], env: [{name: A, value: --config "
        "/etc/flags.yaml}]}"}) {
    const InjectionCase one = container_case(container);
    EXPECT_NE(one.inject().refused, "") << container;
    EXPECT_NE(one.inject().refused.find("; "), std::string::npos) << one.inject().refused;
  }
}

// covers F-239
TEST(UsersConnectors, SentencesSayWhereAndWhatToDo) {
  const InjectionCase one = container_case(
      "{command: [bash, -c, 'vllm serve m $EXTRA'], envFrom: [{configMapRef: {name: c}}]}");
  EXPECT_EQ(one.inject().refused,
            "container engine cannot be connected: the variable EXTRA may hold a connector that "
            "the injector cannot read (envFrom may set the variable); write the flags into the "
            "command or into env, and put a model or another single value in double quotes");
}

// A value without a connector for certain, or with one value at most, is served also beside an
// envFrom.
// covers F-239
TEST(UsersConnectors, ThatCannotBeThereAreNone) {
  for (const char* script :
       {"vllm serve \"$MODEL\"", "vllm serve m --port $PORT", "vllm serve m --port=$PORT",
        "EXTRA='--seed 1'; vllm serve m $EXTRA", "A=(m --port \"$PORT\"); vllm serve \"${A[@]}\"",
        "A=\"m --port $PORT\"; vllm serve $A", "set -eo pipefail; vllm serve m",
        "vllm serve m --tensor-parallel-size $(nvidia-smi -L | wc -l)",
        "source /opt/venv/bin/activate; X=; vllm serve m $X",
        ". /etc/flags; X='--seed 1'; vllm serve m $X --port $PORT",
        "run() { vllm serve \"$1\" --port $2; }; run m 8000",
        "vllm serve m --rank $(( RANK + 1 )) --seed ${#LIST}",
        "vllm serve m --served-model-name \"$A\" --port \"$B\"",
        "read -r HOST < /etc/hostname; vllm serve m --host $HOST"}) {
    InjectionCase one =
        container_case("{command: [bash, -c, x], envFrom: [{secretRef: {name: token}}]}");
    one.pod["spec"]["containers"][0]["command"][2] = script;
    EXPECT_EQ(one.inject().refused, "") << script;
  }
  for (const char* container :
       {"{command: [vllm, serve, $(MODEL)], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, m, --port, $(PORT)], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, m, --port=$(PORT)], env: [{name: PORT, valueFrom: "
        "{configMapKeyRef: {name: c, key: k}}}]}",
        "{command: [sh, -c, 'vllm serve m $X'], env: [{name: X, value: --seed 1}], envFrom: "
        "[{secretRef: {name: c}}]}",
        "{command: [sh, -c, 'vllm serve m $X'], envFrom: [{prefix: HF_, secretRef: {name: c}}]}",
        "{command: [sh, -c, 'vllm serve m --host $IP $NAME'], env: [{name: NAME, valueFrom: "
        "{fieldRef: {fieldPath: "
        "metadata.name}}}]}"}) {
    EXPECT_EQ(container_case(container).inject().refused, "") << container;
  }
}

// A script or an environment that would take long to look through, or deep, counts as unreadable.
// covers F-239
TEST(UsersConnectors, AreLookedForWithinBounds) {
  const auto refused = [](const std::string& script) {
    InjectionCase one = container_case("{command: [bash, -c, x]}");
    one.pod["spec"]["containers"][0]["command"][2] = script;
    return one.inject().refused;
  };
  std::string wide, deep;
  for (int at = 1; at < 40; ++at) {
    const std::string before = "$A" + std::to_string(at - 1);
    wide += "A" + std::to_string(at) + "=" + before + before + "\n";
  }
  for (int at = 1; at < 10'000; ++at)
    deep += "A" + std::to_string(at) + "=$A" + std::to_string(at - 1) + "\n";
  EXPECT_NE(refused("A0=x\n" + wide + "vllm serve m $A39").find("too long"), std::string::npos);
  EXPECT_NE(refused("A0=x\n" + deep + "vllm serve m $A9999").find("too long"), std::string::npos);
  EXPECT_EQ(refused("A=$B; B=$A; vllm serve m $A"), "") << "a circle has no connector";

  InjectionCase one = container_case("{command: [sh, -c, vllm serve m $A]}");
  Object& environment = one.pod["spec"]["containers"][0]["env"] =
      Object::array({{{"name", "A"}, {"value", "$(A1)"}}});
  for (int at = 1; at < 10'000; ++at)
    environment.push_back(
        {{"name", "A" + std::to_string(at)}, {"value", "$(A" + std::to_string(at + 1) + ")"}});
  EXPECT_NE(one.inject().refused.find("too many nested variables"), std::string::npos)
      << one.inject().refused;
}

}  // namespace
}  // namespace larder::test
