#include "operator/kubectl/plugin.h"

#include <array>
#include <cstdio>
#include <string>

#include "operator/kubectl/arguments.h"
#include "operator/kubectl/plugin_commands.h"
#include "sidecar/ctl/larderctl.h"

namespace larder::kubectl {
namespace {

constexpr int kExitFailed = 2;

// Runs the command of larderctl with larderctl's options; needs no cluster.
// simulate reads files only: a user without a cluster can choose a memory size.
constexpr std::string_view kSimulate = "simulate";
constexpr std::string_view kCheck = "check";

struct Command {
  std::string_view name, operands;
  std::size_t least, most;  // operands
  std::string_view missing;
  std::string_view help;
  Result<ctl::Outcome> (*run)(const Arguments&, const Cluster&);
};

// One table for parser, usage and errors. The number of operands is checked before the cluster is
// asked.
constexpr std::array<Command, 7> kCommands{{
    {"status", "[POOL]", 0, 1, "", "show hits, problems and remedies of each pool",
     status_of_pools},
    {"pods", "[POOL]", 0, 1, "",
     "show injection, attachment, hits and memory of each pod, and reasons for a missing cache",
     pods_of_pools},
    {"why", "POD", 1, 1, "why which pod? kubectl larder pods lists them",
     "show why a pod was not injected or has no hits", why_pod},
    {"top", "[POOL]", 0, 1, "", "show the activity of each pod's larderd, live; Ctrl-C ends top",
     top_of_pools},
    {"backend", "check NAME", 2, 2,
     "which backend? kubectl larder backend check NAME (of a CacheBackend)",
     "show the operator's check of a CacheBackend and the state of every larderd that uses the "
     "backend",
     check_backend},
    {kCheck, "-f FILE", 0, 0, "",
     "show whether the pods of FILE get a cache, and whether the API server accepts them; creates "
     "no object",
     check_files},
    {"trace", "POD", 1, 1, "trace which pod? kubectl larder pods lists them",
     "record the look-ups at a pod's larderd for simulate: block hashes, never tokens; > FILE",
     trace_pod},
}};

std::string usage_line(std::string_view name, std::string_view operands, std::string_view help) {
  const std::string head = std::string(name) + " " + std::string(operands);
  char line[200];
  std::snprintf(line, sizeof(line), "  %-22s%s\n", head.c_str(), std::string(help).c_str());
  return line;
}

std::string usage() {
  std::string text = "usage: kubectl larder COMMAND [options]\n\n";
  for (const Command& command : kCommands)
    text += usage_line(command.name, command.operands, command.help);
  text += usage_line(kSimulate, "FILE...",
                     "compute the hits of recorded traces, to choose a memory size; --sizes, "
                     "--policies as in larderctl");
  text +=
      "\n  -n, --namespace NS    the namespace, default: from the context; -A: all namespaces\n"
      "  -o json               print JSON\n"
      "  -f FILE, -k DIR, -R   check: files, folders, - and URLs, as in kubectl apply; -o yaml: "
      "print the injected pods\n"
      "  --all                 pods: ask every larderd, not only 64\n"
      "  --interval SECONDS    top: time between two screens, default 5; --iterations N, --once: "
      "end after N or one screens\n"
      "  --seconds N           trace: duration, default 60\n"
      "  --context, --kubeconfig, --as and the other options of access go to kubectl unchanged\n\n"
      "Exit status 0: no problem; 1: a problem; 2: the command failed.\n";
  return text;
}

int usage_error(const std::string& why) {
  std::fprintf(stderr, "kubectl larder: %s\n%s", why.c_str(), usage().c_str());
  return kExitFailed;
}

// `wrong` is the sentence for the user; a null command always has one.
const Command* command_of(const Arguments& arguments, std::string& wrong) {
  if (arguments.words.empty()) wrong = "which command?";
  for (const Command& command : kCommands) {
    if (arguments.words.empty() || command.name != arguments.words[0]) continue;
    const std::size_t operands = arguments.words.size() - 1;
    if (operands >= command.least && operands <= command.most) return &command;
    wrong = operands < command.least ? std::string(command.missing)
                                     : "'" + arguments.words.back() + "' is one argument too many";
    if (command.name == kCheck) wrong += ": files stand behind -f";
    return nullptr;
  }
  if (!arguments.words.empty() && arguments.words[0] == kSimulate)
    wrong = "simulate stands first: kubectl larder simulate FILE...";
  if (wrong.empty()) wrong = "'" + arguments.words[0] + "' is no command";
  return nullptr;
}

// The named objects become parts of paths and commands, so names must be valid.
// Also for names that the user typed: "../x" would leave the path of kubectl get --raw.
std::string bad_name(const Arguments& arguments) {
  for (std::size_t i = 1; i < arguments.words.size(); ++i)
    if (!is_name(arguments.words[i])) return arguments.words[i];
  return "";
}

}  // namespace

int run_plugin(std::span<const std::string_view> words) {
  // Before the parser, since simulate has larderctl's options.
  if (!words.empty() && words[0] == kSimulate) return ctl::run(words);
  const Result<Arguments> arguments = parse_arguments(words);
  if (!arguments.ok()) return usage_error(arguments.status().text());
  if (arguments->help) {
    std::fputs(usage().c_str(), stdout);
    return 0;
  }
  if (arguments->version) {
    std::printf("kubectl-larder %s\n", LARDER_VERSION);
    return 0;
  }
  std::string wrong;
  const Command* command = command_of(*arguments, wrong);
  if (command == nullptr) return usage_error(wrong);
  if (command->name != kCheck && (arguments->yaml || !arguments->files.empty()))
    return usage_error("-f, -k, -R and -o yaml are options of check");
  if (const std::string name = bad_name(*arguments); !name.empty())
    return usage_error("'" + name + "' is no name of an object");
  const Kubectl kubectl(arguments->for_kubectl);
  // One Kubectl for the whole run: every call has the same access options.
  const Result<ctl::Outcome> outcome = command->run(*arguments, Cluster(kubectl));
  if (!outcome.ok()) {
    std::fprintf(stderr, "kubectl larder: %s\n", outcome.status().text().c_str());
    return kExitFailed;
  }
  std::fputs(outcome->text.c_str(), stdout);
  return outcome->exit_status;
}

}  // namespace larder::kubectl
