#include "operator/webhook/inject/lost_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "operator/webhook/inject/command_head.h"

namespace larder::webhook {
namespace {

using Words = std::span<const std::optional<std::string>>;

// Programs that start another one with another user's groups, without larderd's.
constexpr std::array<std::string_view, 8> kOtherUsers{
    "sudo", "su", "runuser", "gosu", "su-exec", "s6-setuidgid", "setuidgid", "chpst"};

// The two variables without which the connector does not attach.
bool is_ours(std::string_view name) {
  return name == "PYTHONPATH" || name == "LARDER_SOCKET";
}

std::string_view word_at(Words argv, std::size_t at) {
  return at < argv.size() && argv[at] ? std::string_view(*argv[at]) : "";
}

// Letters after one dash: -i, -Eu.
bool is_cluster(std::string_view option) {
  return option.size() > 1 && option[0] == '-' && option[1] != '-';
}

// "-i", "-iu NAME" and "-0i" are clusters. Letters behind u belong to the name of u.
std::string lost_by_env_option(std::string_view option, std::string_view next) {
  // GNU's env takes the shortest distinct beginning of an option.
  if (option == "-" || option.starts_with("--ignore-e")) return "env -i";
  if (is_cluster(option) && option.substr(0, option.find('u')).find('i') != std::string_view::npos)
    return "env -i";
  const bool unsets = option == "-u" || option == "--unset";
  if (unsets && is_ours(next)) return "env -u " + std::string(next);
  if (unsets && (next.empty() || next.find('$') != std::string_view::npos))
    return "env -u";  // the name is not known
  const std::size_t equals = option.find('=');
  const bool unset = equals != std::string_view::npos && equals > 2 &&
                     std::string_view("--unset").starts_with(option.substr(0, equals));
  if (unset && is_ours(option.substr(equals + 1)))
    return "env -u " + std::string(option.substr(equals + 1));
  if (option.starts_with("-u") && is_ours(option.substr(2)))
    return "env -u " + std::string(option.substr(2));
  return "";
}

// Whether NAME=VALUE keeps the present value: by $(NAME) of Kubernetes, or by an expansion of a
// shell. head_of() writes such an expansion as a single `$` at the end; any other `$` is text.
bool keeps_value(std::string_view word, std::string_view name) {
  return word.ends_with('$') || word.find("$(" + std::string(name) + ")") != std::string_view::npos;
}

// The variables that `env` at this word removes.
// The loop ends at the first word that is neither an option nor an assignment: the program that env
// starts.
std::string lost_by_env(Words argv, std::size_t at) {
  for (++at; at < argv.size() && argv[at]; ++at) {
    const std::string_view word = *argv[at], name = word.substr(0, word.find('='));
    if (word.starts_with('-')) {
      if (std::string lost = lost_by_env_option(word, word_at(argv, at + 1)); !lost.empty())
        return lost;
      if (word == "-u" || word == "--unset" || word == "-C" || word == "--chdir") ++at;
    } else if (name.size() == word.size()) {
      return "";
    } else if (is_ours(name) && !keeps_value(word, name)) {
      return "env " + std::string(name) + "=";
    }
  }
  return "";
}

// python3 -I, -E and -S ignore PYTHONPATH or the folders with packages.
// -m and -c end the options of python; letters behind X, W, m and c in one word are their value.
std::string lost_by_python(Words argv, std::size_t at) {
  for (++at; is_cluster(word_at(argv, at)); ++at) {
    const std::string_view word = word_at(argv, at);
    if (word == "-m" || word == "-c") return "";
    const std::string_view letters = word.substr(1, word.find_first_of("XWmc", 1) - 1);
    if (letters.find_first_of("IES") != std::string_view::npos)
      return "python " + std::string(word);
    if (word == "-X" || word == "-W") ++at;
  }
  return "";
}

// exec -c empties the environment; -a takes the rest of its word, or the next word, as a name.
std::string lost_by_exec(Words argv, std::size_t at) {
  for (++at; is_cluster(word_at(argv, at)); ++at) {
    const std::string_view option = word_at(argv, at), letters = option.substr(0, option.find('a'));
    if (letters.find('c') != std::string_view::npos) return "exec -c";
    if (option.ends_with('a') && letters.size() + 1 == option.size()) ++at;
  }
  return "";
}

// nsys profile -e A=1,PYTHONPATH=/x sets variables, and --run-as takes another user.
std::string lost_by_nsys(Words argv, std::size_t at) {
  for (++at; at < argv.size(); ++at) {
    const std::string_view word = word_at(argv, at), option = word.substr(0, word.find('='));
    if (option == "--run-as") return "nsys --run-as";
    if (!word.starts_with("-e") && option != "--env-var") continue;
    std::string list = ",";
    if (word == "-e" || word == "--env-var")
      list += word_at(argv, at + 1);
    else
      list += word.substr(option == "--env-var" ? option.size() + 1 : 2);
    for (const std::string name : {"PYTHONPATH", "LARDER_SOCKET"})
      if (list.find("," + name + "=") != std::string::npos) return "nsys --env-var " + name;
  }
  return "";
}

// setpriv may clear the groups, and the engine then cannot open larderd's socket.
std::string lost_by_setpriv(Words argv, std::size_t at) {
  for (++at; at < argv.size(); ++at)
    for (const std::string_view option :
         {"--reset-env", "--clear-groups", "--init-groups", "--groups"})
      if (word_at(argv, at).starts_with(option)) return "setpriv " + std::string(option);
  return "";
}

}  // namespace

// Every word in front of the engine is looked at: `timeout 30 env -i vllm serve m` has env in the
// middle.
std::string environment_lost(Words argv) {
  for (std::size_t at = 0; at < argv.size(); ++at) {
    const std::string_view name = program_name(word_at(argv, at));
    if (std::ranges::find(kOtherUsers, name) != kOtherUsers.end()) return std::string(name);
    std::string lost;
    if (name == "env") lost = lost_by_env(argv, at);
    if (name == "exec") lost = lost_by_exec(argv, at);
    if (name == "nsys") lost = lost_by_nsys(argv, at);
    if (name == "setpriv") lost = lost_by_setpriv(argv, at);
    if (is_python(name)) lost = lost_by_python(argv, at);
    if (!lost.empty()) return lost;
  }
  return "";
}

}  // namespace larder::webhook
