// A connector of the user's own is never lost: if a connector may reach vLLM by an unreadable way,
// the pod is left alone. Real shells show vLLM's words; vLLM takes the last --kv-transfer-config.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/operator/webhook/inject/real_shell.h"

namespace larder::test {
namespace {

using api::Object;

// Variables of each container here, from a Secret. A name that is not here counts as empty.
const std::map<std::string, std::string> kOutside{
    {"KV", R"({"kv_connector":"Users","kv_role":"kv_both"})"},
    {"OUTSIDE", R"(--kv-transfer-config {"kv_connector":"Users"})"},
    {"WHOLE", R"(m --kv-transfer-config {"kv_connector":"Users"})"},
    {"ONE", R"(--kv-transfer-config={"kv_connector":"Users"})"}};

struct ConnectorForm {
  const char* name;
  const char* script;  // of bash, with the variables of envFrom
};

class UserConnector : public testing::TestWithParam<ConnectorForm> {};

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

// covers F-239, F-383, F-400, F-401
TEST_P(UserConnector, IsKept) {
  InjectionCase one = container_case("{command: [bash, -c, x, sh]}");
  Object& engine = one.pod["spec"]["containers"][0];
  for (const auto& [name, value] : kOutside)
    engine["env"].push_back(
        {{"name", name}, {"valueFrom", {{"secretKeyRef", {{"name", "c"}, {"key", "k"}}}}}});
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

constexpr ConnectorForm kForms[] = {
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

INSTANTIATE_TEST_SUITE_P(All, UserConnector, testing::ValuesIn(kForms),
                         [](const auto& one) { return one.param.name; });

// Words that reach the command line through loops, additions to arrays, functions and names in
// pieces.
constexpr ConnectorForm kWays[] = {
    {"loop_into_an_array", R"(A=(m); for f in $OUTSIDE; do A+=("$f"); done; vllm serve "${A[@]}")"},
    {"lines_read_into_an_array",
     R"Y(A=(m); while read -r l; do A+=("$l"); done < <(printf "%s\n" $OUTSIDE); vllm serve )Y"
     R"Y("${A[@]}")Y"},
    {"output_into_an_array",
     R"(A=(m); for f in $(echo "$OUTSIDE"); do A+=("$f"); done; vllm serve "${A[@]}")"},
    {"names_into_an_array",
     R"Y(F1=${OUTSIDE%% *}; F2=${OUTSIDE#* }; A=(m); for v in F1 F2; do A+=("${!v}"); done; )Y"
     R"Y(vllm serve "${A[@]}")Y"},
    {"names_by_prefix",
     R"Y(VF1=${OUTSIDE%% *}; VF2=${OUTSIDE#* }; A=(m); for v in ${!VF@}; do A+=("${!v}"); )Y"
     R"Y(done; vllm serve "${A[@]}")Y"},
    {"several_additions",
     R"(F=${OUTSIDE%% *}; K=${OUTSIDE#* }; A=(m); A+=("$F"); A+=("$K"); vllm serve "${A[@]}")"},
    {"one_addition", R"(A=(m); A+=("$ONE"); vllm serve "${A[@]}")"},
    {"addition_behind_a_value", R"(A=(m); A+=(--port "1" "$ONE"); vllm serve "${A[@]}")"},
    {"array_behind_the_model", R"(A=("$ONE"); vllm serve m "${A[@]}")"},
    {"array_of_a_module", R"(A=("$ONE"); python3 -m vllm.entrypoints.openai.api_server "${A[@]}")"},
    {"array_in_a_branch", R"(A=(m); if [ -n "$ONE" ]; then A+=("$ONE"); fi; vllm serve "${A[@]}")"},
    {"pairs_of_a_file", R"Y(A=(m); while IFS== read -r k v; do A+=("--$k" "$v"); done <<< )Y"
                        R"Y("kv-transfer-config=$KV"; vllm serve "${A[@]}")Y"},
    {"pairs_in_one_word", R"Y(A=(m); while IFS== read -r k v; do A+=("--$k=$v"); done <<< )Y"
                          R"Y("kv-transfer-config=$KV"; vllm serve "${A[@]}")Y"},
    {"map_of_flags",
     R"Y(declare -A O; O[kv-transfer-config]=$KV; A=(m); for k in "${!O[@]}"; do A+=("--$k" )Y"
     R"Y("${O[$k]}"); done; vllm serve "${A[@]}")Y"},
    {"options_of_getopts",
     R"Y(A=(m); set -- -k "$ONE"; while getopts k: o; do A+=("$OPTARG"); done; vllm serve )Y"
     R"Y("${A[@]}")Y"},
    {"match_of_a_pattern",
     R"(A=(m); [[ $ONE =~ (.*) ]]; A+=("${BASH_REMATCH[1]}"); vllm serve "${A[@]}")"},
    {"loop_over_arguments",
     R"(set -- "$ONE"; A=(m); for f; do A+=("$f"); done; vllm serve "${A[@]}")"},
    {"loop_over_all_arguments",
     R"(set -- "$ONE"; A=(m); for f in "$@"; do A+=("$f"); done; vllm serve "${A[@]}")"},
    {"loop_with_shift",
     R"Y(set -- "$ONE"; A=(m); while [ $# -gt 0 ]; do A+=("$1"); shift; done; vllm serve )Y"
     R"Y("${A[@]}")Y"},
    {"elements_by_index", R"(A=([0]=m [1]="$ONE"); vllm serve "${A[@]}")"},
    {"element_at_the_end", R"(A=(m); A[${#A[@]}]=$ONE; vllm serve "${A[@]}")"},
    {"printf_into_an_element", R"(A=(m); printf -v 'A[1]' %s "$ONE"; vllm serve "${A[@]}")"},
    {"printf_in_one_option", R"(printf -vA %s "$OUTSIDE"; vllm serve m $A)"},
    {"read_by_a_name", R"(N=A; A=; read -r "$N" <<< "$OUTSIDE"; vllm serve m $A)"},
    {"eval_by_a_name", R"(N=1; A1=; eval "A$N=\$OUTSIDE"; vllm serve m $A1)"},
    {"global_reference", R"(f() { declare -gn R=OUTSIDE; }; R=; f; vllm serve m $R)"},
    {"a_default_that_is_set",
     R"(OUTSIDE=; : "${A:=$(printf %s "--kv-transfer-config=$KV")}"; vllm serve m $A)"},
    {"function_of_the_name",
     R"(vllm() { command vllm "$1" "$2" --kv-transfer-config "$KV"; }; vllm serve m)"},
    {"function_of_additions",
     R"(A=(m); add() { A+=("$@"); }; add --port 1; add "$ONE"; vllm serve "${A[@]}")"},
    {"function_in_time", R"(run() { vllm serve m "$@"; }; time run "$ONE")"},
    {"function_by_a_variable", R"(run() { vllm serve m "$@"; }; R=run; $R "$ONE")"},
    {"array_of_the_command_and_a_word", R"(C=(vllm serve m); exec "${C[@]}" "$ONE")"},
    {"array_in_another_array", R"(C=(vllm serve m); D=("${C[@]}" "$ONE"); exec "${D[@]}")"},
    {"array_by_a_function", R"(run() { "$@" "$ONE"; }; C=(vllm serve m); run "${C[@]}")"},
    {"array_by_set", R"(C=(vllm serve m); set -- "${C[@]}" "$ONE"; exec "$@")"},
    {"array_by_set_and_more", R"(C=(vllm serve m); set -- "${C[@]}"; exec "$@" $OUTSIDE)"},
    {"dashes_in_a_variable", R"(D=--; vllm serve m ${D}kv-transfer-config "$KV")"},
    {"two_pieces", R"(A=--kv-; B=transfer-config; vllm serve m $A$B "$KV")"},
    {"pieces_in_a_variable", R"(A=--kv-; B=transfer-config; F=$A$B; vllm serve m $F "$KV")"},
    {"built_up", R"(F=--kv; F=$F-transfer; F+=-config; vllm serve m $F "$KV")"},
    {"one_dash", R"(F=-kv-transfer-config; vllm serve m -$F "$KV")"},
    {"lower_case", R"(F=--KV-TRANSFER-CONFIG; vllm serve m ${F,,} "$KV")"},
    {"replaced_text", R"(F=--X-transfer-config; vllm serve m ${F/X/kv} "$KV")"},
    {"text_of_an_eval", R"(A='$OUTSIDE'; eval "vllm serve m $A")"},
    {"text_of_an_eval_in_an_array", R"(A=(m '$OUTSIDE'); eval "vllm serve ${A[@]}")"},
    {"arguments_of_an_eval", R"(set -- '$OUTSIDE'; eval "vllm serve m $@")"},
    {"arguments_of_a_shell", R"(bash -c 'exec vllm serve m "$@"' x "$ONE")"},
    {"words_behind_the_model", R"(M="m $OUTSIDE"; vllm serve /$M)"},
    {"array_by_its_name", R"(A=(m "$ONE"); B='A[@]'; vllm serve "${!B}")"},
    {"arguments_if_any", R"(set -- m "$ONE"; vllm serve "${1+"$@"}")"},
    {"model_by_its_flag", R"(vllm serve "$ONE" --model m)"},
    {"braces_of_dashes", R"(vllm serve m -{-kv-transfer-config,x}='{"kv_connector":"Users"}')"},
    {"output_in_the_middle", R"(vllm serve m --port 1 $(echo "$OUTSIDE") --seed 1)"},
    {"here_string_in_an_array", R"(read -ra A <<< "m $OUTSIDE"; vllm serve "${A[@]}")"},
};

INSTANTIATE_TEST_SUITE_P(Ways, UserConnector, testing::ValuesIn(kWays),
                         [](const auto& one) { return one.param.name; });

// A first word that is no model, texts that a shell reads twice, and commands that set variables in
// rare forms. $$ in a pod is $ for the shell.
constexpr ConnectorForm kRareWays[] = {
    {"in_front_of_a_known_model", R"(M=m; vllm serve "$ONE" "$M")"},
    {"in_front_of_a_default_model", R"(vllm serve "$ONE" "${NO_MODEL:-m}")"},
    {"in_front_of_a_model_of_a_loop", R"(for M in m; do vllm serve "$ONE" "$M"; done)"},
    {"in_front_of_a_model_of_an_argument", R"(set -- m; vllm serve "$ONE" "$1")"},
    {"in_front_of_the_models_flag", R"(B="--port 1 --model m"; vllm serve "$ONE" $B)"},
    {"model_behind_a_value", R"(vllm serve "$ONE" --port 1 m)"},
    {"model_behind_a_switch", R"(vllm serve "$ONE" --enforce-eager m)"},
    {"model_behind_dashes", R"(vllm serve "$ONE" -- m)"},
    {"model_in_the_array", R"(A=("$ONE" m); vllm serve "${A[@]}")"},
    {"models_flag_in_the_array", R"(A=("$ONE" --model m); vllm serve "${A[@]}")"},
    {"model_in_an_addition", R"(A=("$ONE"); A+=(m); vllm serve "${A[@]}")"},
    {"model_in_another_array", R"(A=("$ONE"); B=(--model m); vllm serve "${A[@]}" "${B[@]}")"},
    {"model_added_to_the_command", R"(C=(vllm serve "$ONE"); C+=(m); exec "${C[@]}")"},
    {"model_behind_the_command", R"(C=(vllm serve "$ONE"); exec "${C[@]}" m)"},
    {"model_in_a_function", R"(run() { "$@" m; }; C=(vllm serve "$ONE"); run "${C[@]}")"},
    {"read_in_one_option", R"(read -raA <<< "$WHOLE"; vllm serve "${A[@]}")"},
    {"mapfile_by_a_name", R"(N=A; mapfile -t "$N" <<< "$ONE"; vllm serve "${A[@]}" --model m)"},
    {"name_in_an_eval", R"(N=ONE; eval "X=\${$N}"; vllm serve $X --model m)"},
    {"name_in_an_eval_of_kubernetes", R"(N=ONE; eval "X=\$$$N"; vllm serve $X --model m)"},
    {"name_in_an_export", R"(N=ONE; eval "export X=\${$N}"; vllm serve $X --model m)"},
    {"name_in_a_default", R"(N=ONE; eval ": \${X:=\${$N}}"; vllm serve $X --model m)"},
    {"name_in_a_set", R"(N=ONE; eval "set -- \${$N}"; vllm serve $1 --model m)"},
    {"name_in_a_call", R"(f() { X=$1; }; N=ONE; eval "f \${$N}"; vllm serve $X --model m)"},
    {"name_in_the_command_of_an_eval", R"(N=ONE; eval "vllm serve m \${$N}")"},
    {"name_in_a_shell", R"(N=ONE; bash -c "X=\${$N}; vllm serve \$X --model m")"},
    {"escaped_for_kubernetes", "vllm serve $$WHOLE"},
    {"escaped_braces_for_kubernetes", "vllm serve m $${ONE}"},
    {"expanded_once_more", R"(X='$WHOLE'; vllm serve ${X@P})"},
    {"arguments_by_a_file",
     R"(echo "set -- '$ONE'" > flags; . ./flags; vllm serve "$1" --model m)"},
    {"command_in_a_variable", R"(R=read; $R -r X <<< "$WHOLE"; vllm serve $X)"},
    {"array_in_quotes", R"(declare -a 'A=("$ONE")'; vllm serve "${A[@]}" --model m)"},
    {"trap", R"(trap 'X=$WHOLE' DEBUG; vllm serve $X)"},
    {"between_comments_of_substitutions",
     "N=$(\n  # don't ask twice\n  echo 1\n)\nA=$WHOLE\nP=$(\n  # isn't fixed\n  echo 2\n)\nvllm "
     "serve $A"},
    {"between_here_documents_of_substitutions",
     "N=$(cat <<E\nit's\nE\n)\nA=$WHOLE\nP=$(cat <<E\ndon't\nE\n)\nvllm serve $A"},
    {"behind_a_case_of_a_substitution",
     "case $0 in\n a) V=$(case 1 in 1) echo 2;; esac)\n    WHOLE=m ;;\nesac\nvllm serve $WHOLE"},
};

INSTANTIATE_TEST_SUITE_P(RareWays, UserConnector, testing::ValuesIn(kRareWays),
                         [](const auto& one) { return one.param.name; });

// Words without a shell, and variables whose value the pod does not have.
// covers F-239, F-400
TEST(UserConnectors, FromKubernetesExpansionAreKept) {
  for (const char* container :
       {"{command: [vllm, serve, $(A), $(M)], env: [{name: M, value: m}], envFrom: [{secretRef: "
        "{name: c}}]}",
        "{command: [vllm, serve, $(A), --port, '1', m], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, $(A), -O3, m], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, m, $(A)], env: [{name: A, valueFrom: {configMapKeyRef: {name: c, "
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
        "/etc/flags.yaml}]}",
        "{command: [bash, -c, 'vllm serve m $A'], env: [{name: BASH_ENV, value: /etc/env}]}",
        "{command: [vllm, serve, m, $(A)$(B), '{}'], env: [{name: A, value: --kv-}, {name: B, "
        "value: transfer-config}]}",
        "{command: [vllm, serve, m, $(B)], env: [{name: A, value: --kv}, {name: B, value: "
        "'$(A)-transfer-config={}'}]}",
        "{command: [vllm, serve, m, '-$(A)', '{}'], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, $(A), --model, m], envFrom: [{secretRef: {name: c}}]}",
        "{command: [vllm, serve, m], args: [$(EXTRA)], env: [{name: EXTRA, value: "
        "'--kv-transfer-config={\"kv_connector\":\"X\"}'}]}",
        "{command: [vllm, serve, m], args: [$(A), $(B)], env: [{name: A, value: "
        "--kv-transfer-config}, {name: B, value: '{\"kv_connector\":\"X\"}'}]}",
        "{command: [sh, -c, 'vllm serve m $A $B'], env: [{name: A, value: --kv-transfer-config}, "
        "{name: B, value: '{\"kv_connector\":\"X\"}'}]}",
        "{command: [sh, -c, 'eval \"vllm serve m $A $B\"'], env: [{name: A, value: "
        "--kv-transfer-config}, {name: B, value: '{\"kv_connector\":\"X\"}'}]}",
        "{command: [sh, -c, 'vllm serve m \"$@\"', --, $(A), $(B)], env: [{name: A, value: "
        "--kv-transfer-config}, {name: B, value: '{\"kv_connector\":\"X\"}'}]}",
        "{command: [sh, -c, 'vllm serve m --kv-transfer-config $B'], env: [{name: B, value: "
        "'{\"kv_connector\":\"X\"}'}]}",
        "{command: [bash, -c, 'eval \"vllm serve m ${ARGS}\"'], env: [{name: ARGS, value: '--port "
        "1 $EXTRA'}, {name: EXTRA, valueFrom: {secretKeyRef: {name: c, key: k}}}]}"}) {
    const InjectionCase one = container_case(container);
    EXPECT_NE(one.inject().refused, "") << container;
    EXPECT_NE(one.inject().refused.find("; "), std::string::npos) << one.inject().refused;
  }
}

// covers F-239
TEST(UserConnectors, MessagesNamePlaceAndRemedy) {
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
TEST(UserConnectors, ImpossibleConnectorsAreIgnored) {
  for (const char* script :
       {"vllm serve \"$MODEL\"",
        "vllm serve \"$MODEL\" --served-model-name a b --lora-modules c=d e=f --port 1",
        "vllm serve \"$MODEL\" --an-option-of-tomorrow 3 --port 1",
        "P='--port 1'; vllm serve \"$MODEL\" $P",
        "P=; vllm serve \"$MODEL\" ${P:---port 1}",
        "A=(\"$MODEL\"); A+=(--port 1); vllm serve \"${A[@]}\"",
        "C=(vllm serve \"$MODEL\"); C+=(--port 1); exec \"${C[@]}\" --seed 1",
        "echo $$$$ > /run/engine.pid; vllm serve m --port 1",
        "trap 'kill 0' TERM; vllm serve m",
        "vllm serve m --port $PORT",
        "vllm serve m --port=$PORT",
        "EXTRA='--seed 1'; vllm serve m $EXTRA",
        "A=(m --port \"$PORT\"); vllm serve \"${A[@]}\"",
        "A=\"m --port $PORT\"; vllm serve $A",
        "set -eo pipefail; vllm serve m",
        "vllm serve m --tensor-parallel-size $(nvidia-smi -L | wc -l)",
        "source /opt/venv/bin/activate; X=; vllm serve m $X",
        ". /etc/flags; X='--seed 1'; vllm serve m $X --port $PORT",
        "run() { vllm serve \"$1\" --port $2; }; run m 8000",
        "vllm serve m --rank $(( RANK + 1 )) --seed ${#LIST}",
        "vllm serve m --served-model-name \"$A\" --port \"$B\"",
        "read -r HOST < /etc/hostname; vllm serve m --host $HOST",
        "A=(m); A+=(--port \"$PORT\"); vllm serve \"${A[@]}\"",
        "A=(\"$MODEL\" --port 1); A+=(--seed 1); vllm serve \"${A[@]}\"",
        "C=(vllm serve \"$MODEL\"); C+=(--port \"$PORT\"); exec \"${C[@]}\"",
        "run() { echo \"$@\"; \"$@\"; }; C=(vllm serve m --port \"$PORT\"); run \"${C[@]}\"",
        "A=(m); for k in seed port; do A+=(\"--$k\" 1); done; vllm serve \"${A[@]}\"",
        ": \"${X:=--seed 1}\"; X=; vllm serve m $X",
        "X='--seed,1'; vllm serve m ${X//,/ }",
        "X=; X=\"$X --seed 1\"; vllm serve m $X",
        "set -- --seed 1; A=(m \"$@\"); vllm serve \"${A[@]}\"",
        "N=(); N=(numactl -N 0); C=(vllm serve m); exec \"${N[@]}\" \"${C[@]}\"",
        "N=/models; M=llama; vllm serve \"$N/$M\" --served-model-name \"$M\""}) {
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
TEST(UserConnectors, SearchIsBounded) {
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
