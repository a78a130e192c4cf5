#include "sidecar/app/arguments.h"

#include "sidecar/base/command_line.h"
#include "sidecar/config/values.h"

namespace larder {
namespace {

// Options of the supervised larderd too.
template <bool Arguments::*kField>
bool set_flag(Arguments& arguments, std::string_view name, std::string_view) {
  arguments.of_child.emplace_back(name);
  return arguments.*kField = true;
}
// The child gets the options word by word, so that both processes read the same configuration.
void give_to_child(Arguments& arguments, std::string_view name, std::string_view value) {
  arguments.of_child.emplace_back(name);
  arguments.of_child.emplace_back(value);
}
bool set_config(Arguments& arguments, std::string_view name, std::string_view value) {
  arguments.config_file = value;
  give_to_child(arguments, name, value);
  return true;
}
bool set_supervisor_drops(Arguments& arguments, std::string_view name, std::string_view value) {
  give_to_child(arguments, name, value);
  // Not for users: the supervisor gives the number of its eventfd to its child.
  return config::parse_number(value, arguments.supervisor_drops.emplace());
}

// A child with this option would supervise a child of its own, without end.
bool add_supervise(Arguments& arguments, std::string_view, std::string_view value) {
  arguments.supervise.emplace_back(value);
  return true;
}

constexpr base::Option<Arguments> kOptions[] = {
    {"--config", "a file", set_config},
    {"--supervise", "an address", add_supervise},
    {"--supervisor-drops", "a descriptor of the supervisor", set_supervisor_drops},
    {"--watch-config", "", set_flag<&Arguments::watch_config>},
    {"--check-config", "", set_flag<&Arguments::check_config>},
    {"--config-reference", "", set_flag<&Arguments::config_reference>},
    {"--metrics-reference", "", set_flag<&Arguments::metrics_reference>},
    {"--free-memory", "", set_flag<&Arguments::free_memory>},
    {"--version", "", set_flag<&Arguments::version>},
    {"--help", "", set_flag<&Arguments::help>},
    {"-h", "", set_flag<&Arguments::help>},
};
constexpr base::Grammar<Arguments> kGrammar{
    .unknown = "is no option of larderd (see larderd --help)",
    .hint = " (see larderd --help)",
    .empty_is_missing = true};

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words) {
  return base::parse_command_line<Arguments>(kOptions, kGrammar, words);
}

}  // namespace larder
