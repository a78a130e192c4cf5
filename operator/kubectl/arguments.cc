#include "operator/kubectl/arguments.h"

#include "operator/kubectl/cluster.h"
#include "sidecar/base/command_line.h"
#include "sidecar/config/values.h"

namespace larder::kubectl {
namespace {

using base::set_flag;

constexpr double kShortestInterval = 1, kLongestInterval = 3600;  // a look runs one kubectl per pod
constexpr std::uint64_t kMostIterations = 1'000'000'000;
constexpr std::uint64_t kLongestTrace = 86'400;  // seconds

// The bounds keep a wrong option from a loop without pause or a program without end.
template <typename Number>
bool read_number(std::string_view text, Number least, Number most, Number& target) {
  return config::parse_number(text, target) && target >= least && target <= most;
}

bool set_once(Arguments& arguments, std::string_view, std::string_view) {
  arguments.iterations = 1;
  return true;
}
// is_name() here as well: the namespace becomes a part of paths for kubectl get --raw.
bool set_namespace(Arguments& arguments, std::string_view, std::string_view text) {
  arguments.ns = text;
  return is_name(text);
}
bool set_output(Arguments& arguments, std::string_view, std::string_view text) {
  arguments.json = text == "json";
  arguments.yaml = text == "yaml";
  return arguments.json || arguments.yaml;
}
bool set_interval(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, kShortestInterval, kLongestInterval, arguments.interval_seconds);
}
bool set_iterations(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, std::uint64_t{1}, kMostIterations, arguments.iterations);
}
bool set_seconds(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, std::uint64_t{1}, kLongestTrace, arguments.seconds);
}

// kubectl reads the files itself, so FILE means the same as in kubectl apply.
bool add_recursive(Arguments& arguments, std::string_view, std::string_view) {
  arguments.files.emplace_back("--recursive");
  return true;
}
bool add_file(Arguments& arguments, std::string_view, std::string_view text) {
  arguments.files.push_back("--filename=" + std::string(text));
  return true;
}
bool add_kustomize(Arguments& arguments, std::string_view, std::string_view text) {
  arguments.files.push_back("--kustomize=" + std::string(text));
  return true;
}

// Options of kubectl.
// The plug-in passes these options to every kubectl that it starts: it has no credentials and no
// connection of its own.
bool pass_flag(Arguments& arguments, std::string_view name, std::string_view) {
  arguments.for_kubectl.emplace_back(name);
  return true;
}
bool pass(Arguments& arguments, std::string_view name, std::string_view text) {
  arguments.for_kubectl.push_back(std::string(name) + "=" + std::string(text));
  return true;
}
// kubectl gets the long form, since pass() writes NAME=VALUE.
bool pass_server(Arguments& arguments, std::string_view, std::string_view text) {
  return pass(arguments, "--server", text);
}

// Access options are an explicit list. An unknown option is an error here and not in the middle of
// a command.
constexpr base::Option<Arguments> kOptions[] = {
    {"-A", "", set_flag<&Arguments::all_namespaces>},
    {"--all-namespaces", "", set_flag<&Arguments::all_namespaces>},
    {"-h", "", set_flag<&Arguments::help>},
    {"--help", "", set_flag<&Arguments::help>},
    {"--version", "", set_flag<&Arguments::version>},
    {"--all", "", set_flag<&Arguments::every_pod>},
    {"--once", "", set_once},
    {"-n", "the name of a namespace", set_namespace},
    {"--namespace", "the name of a namespace", set_namespace},
    {"-o", "json, or yaml of check", set_output},
    {"--output", "json, or yaml of check", set_output},
    {"--interval", "a number of seconds, 1 to 3600", set_interval},
    {"--iterations", "a whole number of at least 1", set_iterations},
    {"--seconds", "a whole number of seconds, 1 to 86400", set_seconds},
    {"-f", "a file, a folder or a URL", add_file},
    {"--filename", "a file, a folder or a URL", add_file},
    {"-k", "a folder", add_kustomize},
    {"--kustomize", "a folder", add_kustomize},
    {"-R", "", add_recursive},
    {"--recursive", "", add_recursive},
    {"--context", "a context of the kubeconfig", pass},
    {"--kubeconfig", "a file", pass},
    {"--cluster", "a cluster of the kubeconfig", pass},
    {"--user", "a user of the kubeconfig", pass},
    {"--as", "a user", pass},
    {"--as-group", "a group", pass},
    {"--as-uid", "a UID", pass},
    {"-s", "a URL", pass_server},
    {"--server", "a URL", pass},
    {"--token", "a token", pass},
    {"--cache-dir", "a folder", pass},
    {"--request-timeout", "a duration", pass},
    {"--certificate-authority", "a file", pass},
    {"--client-certificate", "a file", pass},
    {"--client-key", "a file", pass},
    {"--tls-server-name", "a name", pass},
    {"--insecure-skip-tls-verify", "", pass_flag},
    {"--insecure-skip-tls-verify", "true or false", pass},
};
constexpr base::Grammar<Arguments> kGrammar{
    .unknown = "is no option of kubectl larder", .operands = &Arguments::words, .letters = true};

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words) {
  return base::parse_command_line<Arguments>(kOptions, kGrammar, words);
}

}  // namespace larder::kubectl
