#include "operator/kubectl/arguments.h"

#include <algorithm>
#include <array>

#include "operator/kubectl/cluster.h"
#include "sidecar/config/values.h"
#include "sidecar/ctl/options_anywhere.h"

namespace larder::kubectl {
namespace {

constexpr double kShortestInterval = 1, kLongestInterval = 3600;  // a look runs one kubectl per pod
constexpr std::uint64_t kMostIterations = 1'000'000'000;
constexpr std::uint64_t kLongestTrace = 86'400;  // seconds

// Options of kubectl, with and without a value.
constexpr std::array<std::string_view, 15> kPassed{"--context",
                                                   "--kubeconfig",
                                                   "--cluster",
                                                   "--user",
                                                   "--as",
                                                   "--as-group",
                                                   "--as-uid",
                                                   "--server",
                                                   "--token",
                                                   "--cache-dir",
                                                   "--request-timeout",
                                                   "--certificate-authority",
                                                   "--client-certificate",
                                                   "--client-key",
                                                   "--tls-server-name"};
constexpr std::string_view kInsecure = "--insecure-skip-tls-verify";

Status wrong(std::string_view word, const std::string& why) {
  return {Code::kInvalidArgument, "'" + std::string(word) + "' " + why};
}

template <typename Number>
bool read_number(std::string_view text, Number least, Number most, Number& target) {
  return config::parse_number(text, target) && target >= least && target <= most;
}

bool set_flag(std::string_view word, Arguments& arguments) {
  if (word == "-A" || word == "--all-namespaces") return arguments.all_namespaces = true;
  if (word == "-h" || word == "--help") return arguments.help = true;
  if (word == "--version") return arguments.version = true;
  if (word == "-R" || word == "--recursive") return arguments.files.emplace_back("--recursive"), true;
  if (word == "--all") return arguments.every_pod = true;
  if (word == "--once") return (arguments.iterations = 1) == 1;
  if (!word.starts_with(kInsecure)) return false;
  arguments.for_kubectl.emplace_back(word);
  return true;
}

// Empty: not an option.
Status set_value(std::string_view name, std::string_view value, Arguments& arguments, bool& known) {
  known = true;
  if (name == "-n" || name == "--namespace") {
    if (!is_name(value)) return wrong(name, "needs the name of a namespace");
    arguments.ns = value;
  } else if (name == "-o" || name == "--output") {
    if (value != "json" && value != "yaml") return wrong(name, "needs json, or yaml of check");
    arguments.json = value == "json";
    arguments.yaml = value == "yaml";
  } else if (name == "-f" || name == "--filename" || name == "-k" || name == "--kustomize") {
    arguments.files.push_back((name == "-k" || name == "--kustomize" ? "--kustomize=" : "--filename=") + std::string(value));
  } else if (name == "--interval") {
    if (!read_number(value, kShortestInterval, kLongestInterval, arguments.interval_seconds))
      return wrong(name, "needs a number of seconds, 1 to 3600");
  } else if (name == "--iterations") {
    if (!read_number(value, std::uint64_t{1}, kMostIterations, arguments.iterations))
      return wrong(name, "needs a whole number of at least 1");
  } else if (name == "--seconds") {
    if (!read_number(value, std::uint64_t{1}, kLongestTrace, arguments.seconds))
      return wrong(name, "needs a whole number of seconds, 1 to 86400");
  } else if (name == "-s" || std::ranges::find(kPassed, name) != kPassed.end()) {
    arguments.for_kubectl.push_back((name == "-s" ? "--server" : std::string(name)) + "=" + std::string(value));
  } else {
    known = false;
  }
  return {};
}

// Reads the option at `words[0]` with its value there or in the next word. Returns the number of
// words.
Result<std::size_t> read_option(std::span<const std::string_view> words, Arguments& arguments) {
  const std::string_view word = words[0];
  if (set_flag(word, arguments)) return std::size_t{1};
  const bool is_short = !word.starts_with("--");
  const std::size_t end = is_short ? std::min<std::size_t>(2, word.size()) : std::min(word.find('='), word.size());
  const bool inside = end < word.size();  // "-njobs", "--namespace=jobs"
  std::string_view value = inside ? word.substr(is_short ? end : end + 1) : words.size() > 1 ? words[1] : "";
  if (is_short && inside && value.starts_with("=")) value.remove_prefix(1);
  bool known = false;
  const Status set = set_value(word.substr(0, end), value, arguments, known);
  if (!known) return wrong(word, "is no option of kubectl larder");
  if (!inside && words.size() < 2) return wrong(word, "needs a value");
  if (!set.ok()) return set;
  return std::size_t{inside ? 1U : 2U};
}

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words) {
  return ctl::parse_options_anywhere<Arguments>(words, read_option);
}

}  // namespace larder::kubectl
