#include "sidecar/ctl/arguments.h"

#include <algorithm>
#include <filesystem>

#include "sidecar/base/command_line.h"
#include "sidecar/config/values.h"

namespace larder::ctl {
namespace {

using base::set_flag;
using base::set_text;

// larderd renews its statistics every 100 ms, so a shorter interval shows the same numbers again.
constexpr double kShortestInterval = 0.1;
constexpr double kLongestInterval = 3600;
constexpr double kLongestTrace = 86'400;
constexpr double kMostWarmUp = 99;
constexpr std::uint64_t kMostIterations = 1'000'000'000;

// The bounds also refuse "nan", which compares as false.
template <typename Number>
bool read_number(std::string_view text, Number least, Number most, Number& target) {
  return config::parse_number(text, target) && target >= least && target <= most;
}

bool set_once(Arguments& arguments, std::string_view, std::string_view) {
  // `--once` is one screen of `top` as plain text.
  arguments.iterations = 1;
  return true;
}
bool set_interval(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, kShortestInterval, kLongestInterval, arguments.interval_seconds);
}
bool set_iterations(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, std::uint64_t{1}, kMostIterations, arguments.iterations);
}
bool set_seconds(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, 1.0, kLongestTrace, arguments.seconds);
}
bool set_warm_up(Arguments& arguments, std::string_view, std::string_view text) {
  return read_number(text, 0.0, kMostWarmUp, arguments.warm_up_percent);
}

// Adds the option `--ca-file` of `backend check` as a value of the key backend.ca_file. The field
// of the key checks the text.
bool add_text(Arguments& arguments, std::string_view name, std::string_view text) {
  // The options of `backend check` are keys of larderd under another spelling. The loader then
  // checks combinations, as for larderd itself.
  std::string key = "backend." + std::string(name.substr(2));
  std::ranges::replace(key, '-', '_');
  arguments.backend.push_back({std::move(key), std::string(text), std::string(name)});
  return !text.empty();
}
bool add_file(Arguments& arguments, std::string_view name, std::string_view path) {
  // Without a working directory the path stays relative, and the field refuses the path.
  std::error_code error;
  const std::filesystem::path absolute = path.empty() ? "" : std::filesystem::absolute(path, error);
  return add_text(arguments, name, error ? std::string(path) : absolute.string());
}

// One table for all commands: an option may stand before the command.
constexpr base::Option<Arguments> kOptions[] = {
    {"--json", "", set_flag<&Arguments::json>},
    {"--help", "", set_flag<&Arguments::help>},
    {"-h", "", set_flag<&Arguments::help>},
    {"--all", "", set_flag<&Arguments::all>},
    {"--version", "", set_flag<&Arguments::version>},
    {"--once", "", set_once},
    {"--socket", "a path", set_text<&Arguments::socket>},
    {"--hashes", "a file, or - for standard input", set_text<&Arguments::hashes_file>},
    {"--interval", "a number of seconds, 0.1 to 3600", set_interval},
    {"--iterations", "a whole number of at least 1", set_iterations},
    {"--config", "a file", set_text<&Arguments::config_file>},
    {"--from", "a folder", set_text<&Arguments::from>},
    {"--sizes", "sizes with commas between", set_text<&Arguments::sizes>},
    {"--policies", "policies with commas between", set_text<&Arguments::policies>},
    {"--block-bytes", "a size", set_text<&Arguments::block_bytes>},
    {"--warm-up", "a percentage, 0 to 99", set_warm_up},
    {"--output", "a file, or for simulate table or json", set_text<&Arguments::output>},
    {"--seconds", "a number of seconds, 1 to 86400", set_seconds},
    {"--password-file", "a file", add_file},
    {"--sentinel-user", "a name", add_text},
    {"--sentinel-password-file", "a file", add_file},
    {"--ca-file", "a file", add_file},
    {"--cert-file", "a file", add_file},
    {"--key-file", "a file", add_file},
    {"--server-name", "a name", add_text},
    {"--prefix", "a prefix", add_text},
};
constexpr base::Grammar<Arguments> kGrammar{.unknown = "is no option of larderctl",
                                            .operands = &Arguments::words,
                                            .rest = &Arguments::command_line};

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words) {
  return base::parse_command_line<Arguments>(kOptions, kGrammar, words);
}

}  // namespace larder::ctl
