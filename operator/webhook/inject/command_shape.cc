#include "operator/webhook/inject/command_shape.h"

#include <algorithm>
#include <array>

#include "operator/webhook/inject/command_head.h"
#include "operator/webhook/inject/engine_flags.h"
#include "operator/webhook/inject/script_engines.h"
#include "operator/webhook/inject/starters.h"

namespace larder::webhook {
namespace {

using api::Object;

using Words = std::span<const std::optional<std::string>>;

// Flags that only vLLM has.
// Evidence in args without a command: the image's entrypoint is invisible to the webhook.
constexpr std::array<std::string_view, 7> kOwnFlags{
    "--max-model-len",          "--gpu-memory-utilization", "--max-num-seqs",
    "--max-num-batched-tokens", "--enable-prefix-caching",  "--enable-chunked-prefill",
    "--kv-transfer-config"};
// Programs that args without a command may name, beside programs that start another one.
// Args may begin with a program, if the image has no entrypoint. Flags of vLLM behind such a
// program would break it.
constexpr auto kPrograms = std::to_array<std::string_view>(
    {"sh",         "bash",         "dash",        "ash",        "zsh",
     "ksh",        "sleep",        "tail",        "cat",        "true",
     "echo",       "ls",           "node",        "nginx",      "ray",
     "java",       "uvicorn",      "gunicorn",    "make",       "curl",
     "pip",        "vllm",         "mpirun",      "torchrun",   "jupyter",
     "sshd",       "jupyter-lab",  "supervisord", "litellm",    "jupyter-notebook",
     "nvidia-smi", "code-server",  "s6-svscan",   "accelerate", "lmcache_server",
     "rocm-smi",   "tritonserver", "mlflow",      "deepspeed",  "huggingface-cli",
     "hf",         "watch",        "init",        "streamlit",  "systemd",
     "date",       "perl",         "npm",         "prometheus", "redis-server",
     "envoy",      "caddy",        "dockerd",     "hypercorn",  "celery"});
// KServe's image, and its module
constexpr std::string_view kHuggingFaceServer = "huggingfaceserver";
// Images whose entrypoint is vLLM's server: vLLM's own, KServe's and Red Hat's.
constexpr std::array<std::string_view, 3> kServerImages{"vllm-openai", kHuggingFaceServer,
                                                        "vllm-cpu-release"};
constexpr std::string_view kRedHatImage = "vllm-", kRedHatSystem = "-rhel";
// Further flags of vLLM, whose values other servers seldom have under these names.
constexpr std::array<std::string_view, 16> kMoreFlags{
    "--tensor-parallel-size",   "--pipeline-parallel-size",
    "--data-parallel-size",     "--enforce-eager",
    "--kv-cache-dtype",         "--trust-remote-code",
    "--served-model-name",      "--enable-lora",
    "--limit-mm-per-prompt",    "--enable-auto-tool-choice",
    "--tool-call-parser",       "--reasoning-parser",
    "--speculative-config",     "--hf-overrides",
    "--enable-expert-parallel", "--generation-config"};
// Names of programs behind a folder that has no bin in it: /init, ./entrypoint.
constexpr std::array<std::string_view, 8> kStarts{"init",   "entrypoint", "start", "run",
                                                  "server", "launch",     "app",   "main"};
// Images of routers and benchmarks carry vllm in their names, e.g. vllm-router.
constexpr std::array<std::string_view, 15> kNoEngines{
    "router", "gateway",   "proxy",  "exporter", "sidecar", "bench",   "adapter", "syncer",
    "mock",   "simulator", "client", "warmup",   "loader",  "monitor", "operator"};
// Flags that name the model, of vLLM or of KServe's server.
constexpr std::array<std::string_view, 5> kModelFlags{"--model", "--served-model-name",
                                                      "--model-name", "--model-dir", "--model-id"};

// `-tp 8`, a form of vLLM alone.
bool has_short_flag(Words argv) {
  return std::ranges::any_of(
      argv, [](const auto& word) { return word == "-tp" || word == "-pp" || word == "-dp"; });
}

// "registry:5000/kserve/huggingfaceserver:latest-gpu@sha256:..." -> "huggingfaceserver".
std::string_view image_name(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const std::string_view name = program_name(image);
  return name.substr(0, name.find(':'));
}

bool has_flag(Words argv, const auto& flags) {
  return std::ranges::any_of(argv, [&flags](const auto& word) {
    return word && std::ranges::find(flags, flag_name(*word)) != flags.end();
  });
}

// Whether a name has a part. The name outlives the function.
auto has_part(std::string_view name) {
  return [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
}

// "facebook/opt-125m", "/mnt/models", "s3://bucket/m", "m.gguf"; not "gpt2", "./server", "/init".
bool is_model(std::string_view word) {
  if (word.find("://") != std::string_view::npos || word.ends_with(".gguf")) return true;
  const std::size_t slash = word.find('/');
  if (slash == std::string_view::npos || word.ends_with(".sh") || word.ends_with(".py"))
    return false;
  if (slash > 0 && word[0] != '.') return true;
  const std::string_view name = program_name(word);
  return std::ranges::none_of(kStarts, [name](std::string_view one) {
    return name == one || name.starts_with(std::string(one) + "-") ||
           name.starts_with(std::string(one) + "_") || name.starts_with(std::string(one) + ".");
  });
}

// "python3", "/usr/bin/tail", "/start.sh": not "org/model", "/mnt/models".
bool is_program(std::string_view word) {
  const std::string_view name = program_name(word);
  const std::string_view folder = word.substr(0, word.size() - name.size());
  return std::ranges::find(kPrograms, name) != kPrograms.end() ||
         (folder.empty() && is_starter(name)) || is_python(name) || folder.ends_with("/bin/") ||
         folder.ends_with("/sbin/") || name.ends_with(".sh") || name.ends_with(".py");
}

// Whether args are a complete command line. Args of vLLM begin with a flag, or with a model
// followed only by flags.
// A model followed by another plain word is no command line of vLLM: `org/model --port 80` is one,
// and `foo bar` is a program with an argument.
bool begins_with_program(Words argv) {
  if (argv.empty() || !argv[0]) return false;
  // `-m other --port 1` for an entrypoint `python3`: vLLM has no such options.
  if (*argv[0] == "-m" || *argv[0] == "-c") {
    std::vector<std::optional<std::string>> python{"python3"};
    python.insert(python.end(), argv.begin(), argv.end());
    return head_of(python).kind != CommandHead::Kind::kEngine;
  }
  if (argv[0]->starts_with('-')) return false;
  if (*argv[0] == "serve") return false;  // for the entrypoint `vllm`
  return is_program(*argv[0]) || (argv.size() > 1 && argv[1] && !argv[1]->starts_with('-'));
}

// `set -- m`, not `set -eo pipefail`.
// A script that sets its own arguments does not run the words of the container unchanged.
bool sets_arguments(const ScriptEngines::Command& command) {
  for (std::size_t at = 1; at < command.words.size(); ++at) {
    const std::string word = command.words[at].text.value_or("");
    if (word == "--" || word.size() < 2 || (word[0] != '-' && word[0] != '+')) return true;
    if (word.back() == 'o') ++at;
  }
  return false;
}

bool is_expansion(const ScriptWord& word, const char* written) {
  return word.known.empty() && word.expansions == std::vector<std::string>{written};
}

// The command of a script that runs the words behind the script.
struct ArgumentRun {
  CommandHead head;        // kEngine: the script runs the words unchanged
  bool from_zero = false;  // `exec "$0" "$@"`: the program is the word right behind the script
};

// How a script that prepares the environment runs the following args, unchanged: as the start of an
// engine, or not at all.
ArgumentRun runs_arguments(const std::string& script) {
  const auto read = ScriptEngines::find(script);
  if (!read.ok() || read->count() != 0) return {};
  std::size_t runs = 0;
  ArgumentRun found;
  for (const ScriptEngines::Command& command : read->commands()) {
    std::size_t head = 0;
    // Assignments in front of the command, as in `A=1 exec "$@"`.
    while (head + 1 < command.words.size() &&
           command.words[head].known.find('=') != std::string::npos)
      ++head;
    const std::string first = command.words[head].text.value_or("");
    // Each of these may change $@ or run other text: the injector then treats the script as
    // kScript.
    if (command.function || first == "shift" || (first == "set" && sets_arguments(command)) ||
        first == "eval" || first == "source" || first == ".")
      return {};
    for (std::size_t at = 0; at < command.words.size(); ++at) {
      if (!is_expansion(command.words[at], "$@")) continue;
      found.from_zero = at > 0 && is_expansion(command.words[at - 1], "$0");
      found.head = head_with_engine_at(command.words, found.from_zero ? at - 1 : at);
      if (found.head.kind != CommandHead::Kind::kEngine || at + 1 != command.words.size())
        return {};
      ++runs;
    }
  }
  return runs == 1 ? found : ArgumentRun{};
}

}  // namespace

// A word that is no text stays in the list as an empty one, so the indexes fit command and args.
std::vector<std::optional<std::string>> argv_of(const Object& container) {
  std::vector<std::optional<std::string>> argv;
  for (const char* list : {"command", "args"}) {
    const Object& words = api::at(container, list);
    if (!words.is_array()) continue;
    for (const Object& word : words)
      argv.push_back(word.is_string() ? std::optional(word.get_ref<const std::string&>())
                                      : std::nullopt);
  }
  return argv;
}

CommandShape shape_of(const Object& container) {
  using Kind = CommandShape::Kind;
  const auto argv = argv_of(container);
  if (argv.empty()) return {};
  const CommandHead head = head_of(argv);
  if (head.kind == CommandHead::Kind::kEngine)
    return {Kind::kArgv, head.index, CommandShape::kNoScript, head.lost};
  if (head.kind == CommandHead::Kind::kShell) {
    const std::size_t script = head.index;
    const ArgumentRun runs = argv[script] ? runs_arguments(*argv[script]) : ArgumentRun{};
    // The word after the script is $0 of the shell; $@ begins behind it.
    const std::size_t rest = std::min(script + (runs.from_zero ? 1 : 2), argv.size());
    const CommandHead passed = head_of(std::span(argv).subspan(rest));
    if (passed.kind == CommandHead::Kind::kEngine && runs.head.kind == CommandHead::Kind::kEngine) {
      std::string lost = head.lost;
      for (const std::string& one : {runs.head.lost, passed.lost})
        if (lost.empty()) lost = one;
      return {Kind::kArgv, rest + passed.index, script, std::move(lost)};
    }
    return {Kind::kScript, script, script, head.lost};
  }
  // Kubernetes: a command replaces the entrypoint of the image, and args alone go to the
  // entrypoint.
  const Object& command = api::at(container, "command");
  const bool has_command = command.is_array() && !command.empty();
  return {has_command || begins_with_program(argv) ? Kind::kForeign : Kind::kEntrypoint, 0,
          CommandShape::kNoScript, ""};
}

bool is_huggingface_server(const Object& container) {
  const std::string image = api::text_at(container, "image");
  if (has_part(image_name(image))(kHuggingFaceServer)) return true;
  return std::ranges::any_of(argv_of(container),
                             [](const auto& word) { return word == kHuggingFaceServer; });
}

bool has_engine_args(const Object& container) {
  const auto argv = argv_of(container);
  if (!argv.empty() && argv[0] && !argv[0]->starts_with('-')) return true;
  return has_flag(argv, kOwnFlags) || has_flag(argv, kModelFlags);
}

bool are_engine_args(const Object& container) {
  const std::string image = api::text_at(container, "image");
  const auto has = has_part(image_name(image));
  if (std::ranges::any_of(kServerImages, has) || (has(kRedHatImage) && has(kRedHatSystem)))
    return true;
  const auto argv = argv_of(container);
  if (argv.empty() || !argv[0]) return false;
  if (argv[0]->starts_with('-')) return true;
  if (*argv[0] == "serve" || is_model(*argv[0])) return true;
  return has_flag(argv, kOwnFlags) || has_flag(argv, kMoreFlags) || has_short_flag(argv);
}

// The name of the image is a guess. Such a container counts as an engine only if no other container
// surely is one (find_engines).
bool looks_like_engine(const Object& container) {
  const std::string image = api::text_at(container, "image");
  const auto has = has_part(image_name(image));
  if (std::ranges::any_of(kNoEngines, has) || image_name(image).ends_with("-sim")) return false;
  if (has("vllm") || has(kHuggingFaceServer)) return true;
  return has_flag(argv_of(container), kOwnFlags);
}

}  // namespace larder::webhook
