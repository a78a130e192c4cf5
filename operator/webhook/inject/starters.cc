#include "operator/webhook/inject/starters.h"

#include <algorithm>
#include <array>

#include "operator/webhook/inject/command_head.h"

namespace larder::webhook {
namespace {

using Words = std::span<const std::optional<std::string>>;

struct Starter {
  std::string_view name;
  std::string_view valued = "";  // options whose value is the next word; "*": any option
  std::size_t operands = 0;      // words between the options and the program
  std::string_view verb = "";    // the word that must follow: `uv run`
};
constexpr std::array<Starter, 38> kStarters{{
    {"exec", "-a"},
    {"command"},
    {"builtin"},
    {"nohup"},
    {"env", "-u --unset -C --chdir"},
    {"time", "-f --format -o --output"},
    {"timeout", "-k --kill-after -s --signal", 1},
    {"nice", "-n --adjustment"},
    {"ionice", "-c --class -n --classdata"},
    {"numactl",
     "-i --interleave -m --membind -N --cpunodebind -C --physcpubind -p --preferred -P "
     "--preferred-many -w --weighted-interleave"},
    {"taskset", "", 1},
    {"prlimit", "-o --output"},
    {"setsid"},
    {"stdbuf", "-i --input -o --output -e --error"},
    {"chrt", "-T -P -D --sched-runtime --sched-period --sched-deadline", 1},
    {"tini", "-p -e"},
    {"tini-static", "-p -e"},
    {"catatonit"},
    {"dumb-init", "-r --rewrite"},
    {"ddtrace-run"},
    {"nvidia_entrypoint.sh"},
    {"setpriv",
     "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps "
     "--bounding-set --securebits --pdeathsig --selinux-label --apparmor-profile"},
    {"nsys", "*", 0, "profile"},
    {"ncu", "*"},
    {"rocprof", "*"},
    {"rocprofv3", "*"},
    {"opentelemetry-instrument", "*"},
    {"uv", "*", 0, "run"},
    {"conda", "-n --name -p --prefix --cwd", 0, "run"},
    {"poetry", "", 0, "run"},
    // Programs of lost_environment.cc, which says why the pod is left alone.
    {"sudo", "-u --user -g --group -h --host -p --prompt -C -r --role -t --type -T -D --chdir"},
    {"su", "*"},
    {"runuser", "*"},
    {"gosu", "", 1},
    {"su-exec", "", 1},
    {"s6-setuidgid", "", 1},
    {"setuidgid", "", 1},
    {"chpst", "-u -U -e -b -/ -n -l -L -m -d -o -p -f -c -r -t"},
}};

const Starter* starter_of(std::string_view word) {
  const auto found = std::ranges::find(kStarters, program_name(word), &Starter::name);
  return found == kStarters.end() ? nullptr : &*found;
}

bool takes_value(const Starter& starter, const std::string& option) {
  std::string_view rest = starter.valued;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    if (one == option) return true;
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return false;
}

}  // namespace

bool is_starter(std::string_view word) {
  return starter_of(word) != nullptr;
}

std::size_t started_by(Words argv, std::size_t at, bool (*knows)(Words, std::size_t)) {
  const Starter& starter = *starter_of(*argv[at]);
  if (!starter.verb.empty() && (++at >= argv.size() || argv[at] != starter.verb))
    return argv.size();
  const bool assigns = starter.name == "env" || starter.name == "sudo";
  std::size_t operands = starter.operands;
  for (++at; at < argv.size(); ++at) {
    if (!argv[at]) {  // a shell's expansion: an operand, `timeout $LIMIT vllm`, or options
      if (operands > 0)
        --operands;
      else if (starter.valued != "*" && starter.name != "numactl")
        return argv.size();
    } else if (const std::string& word = *argv[at]; word == "--") {
      if (operands == 0) return at + 1;
    } else if (word.starts_with('-') && word.size() > 1) {
      if (takes_value(starter, word)) ++at;
      const bool open = starter.valued == "*" && word.find('=') == std::string::npos;
      if (open && at + 1 < argv.size() && argv[at + 1] && !argv[at + 1]->starts_with('-') &&
          !knows(argv, at + 1))
        ++at;
    } else if (word == "-" || (assigns && is_assignment(word))) {
      continue;
    } else if (operands == 0) {
      return at;
    } else {
      --operands;
    }
  }
  return argv.size();
}

}  // namespace larder::webhook
