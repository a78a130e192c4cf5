#include "sidecar/ctl/arguments.h"

#include <filesystem>

#include "sidecar/config/values.h"
#include "sidecar/ctl/options_anywhere.h"

namespace larder::ctl {
namespace {

constexpr double kShortestInterval = 0.1;
constexpr double kLongestInterval = 3600;
constexpr double kLongestTrace = 86'400;
constexpr std::uint64_t kMostIterations = 1'000'000'000;

Status wrong(std::string_view word, std::string_view why) {
  return {Code::kInvalidArgument, "'" + std::string(word) + "' " + std::string(why)};
}

template <typename Number>
bool read_number(std::string_view text, Number least, Number most, Number& target) {
  return config::parse_number(text, target) && target >= least && target <= most;
}

// Adds an option of `backend check` as a value of the key backend.*. The field of the key checks
// the text.
bool add(Arguments& arguments, const char* option, const char* key, std::string text) {
  arguments.backend.push_back({key, std::move(text), option});
  return !arguments.backend.back().text.empty();
}
bool add_file(Arguments& arguments, const char* option, const char* key, std::string_view path) {
  std::error_code error;  // without a working directory the path stays relative, and the field refuses the path
  const std::filesystem::path absolute = path.empty() ? "" : std::filesystem::absolute(path, error);
  return add(arguments, option, key, error ? std::string(path) : absolute.string());
}

// An option with a value: its name, a description of the value, and the setter.
struct ValueOption {
  std::string_view name, takes;
  bool (*set)(std::string_view text, Arguments& arguments);
};
constexpr ValueOption kValueOptions[] = {
    {"--socket", "a path",
     [](std::string_view text, Arguments& arguments) {
       arguments.socket = text;
       return !text.empty();
     }},
    {"--hashes", "a file, or - for standard input",
     [](std::string_view text, Arguments& arguments) {
       arguments.hashes_file = text;
       return !text.empty();
     }},
    {"--interval", "a number of seconds, 0.1 to 3600",
     [](std::string_view text, Arguments& arguments) {
       return read_number(text, kShortestInterval, kLongestInterval, arguments.interval_seconds);
     }},
    {"--iterations", "a whole number of at least 1",
     [](std::string_view text, Arguments& arguments) {
       return read_number(text, std::uint64_t{1}, kMostIterations, arguments.iterations);
     }},
    {"--config", "a file",
     [](std::string_view text, Arguments& arguments) {
       arguments.config_file = text;
       return !text.empty();
     }},
    {"--from", "a folder",
     [](std::string_view text, Arguments& arguments) {
       arguments.from = text;
       return !text.empty();
     }},
    {"--sizes", "sizes with commas between",
     [](std::string_view text, Arguments& arguments) {
       arguments.sizes = text;
       return !text.empty();
     }},
    {"--policies", "policies with commas between",
     [](std::string_view text, Arguments& arguments) {
       arguments.policies = text;
       return !text.empty();
     }},
    {"--block-bytes", "a size",
     [](std::string_view text, Arguments& arguments) {
       arguments.block_bytes = text;
       return !text.empty();
     }},
    {"--output", "a file, or for simulate table or json",
     [](std::string_view text, Arguments& arguments) {
       arguments.output = text;
       return !text.empty();
     }},
    {"--seconds", "a number of seconds, 1 to 86400",
     [](std::string_view text, Arguments& arguments) { return read_number(text, 1.0, kLongestTrace, arguments.seconds); }},
    {"--password-file", "a file",
     [](std::string_view text, Arguments& a) { return add_file(a, "--password-file", "backend.password_file", text); }},
    {"--sentinel-user", "a name",
     [](std::string_view text, Arguments& a) { return add(a, "--sentinel-user", "backend.sentinel_user", std::string(text)); }},
    {"--sentinel-password-file", "a file",
     [](std::string_view text, Arguments& a) {
       return add_file(a, "--sentinel-password-file", "backend.sentinel_password_file", text);
     }},
    {"--ca-file", "a file",
     [](std::string_view text, Arguments& a) { return add_file(a, "--ca-file", "backend.ca_file", text); }},
    {"--cert-file", "a file",
     [](std::string_view text, Arguments& a) { return add_file(a, "--cert-file", "backend.cert_file", text); }},
    {"--key-file", "a file",
     [](std::string_view text, Arguments& a) { return add_file(a, "--key-file", "backend.key_file", text); }},
    {"--server-name", "a name",
     [](std::string_view text, Arguments& a) { return add(a, "--server-name", "backend.server_name", std::string(text)); }},
    {"--prefix", "a prefix",
     [](std::string_view text, Arguments& a) { return add(a, "--prefix", "backend.prefix", std::string(text)); }},
};

struct Flag {
  std::string_view name;
  void (*set)(Arguments& arguments);
};
constexpr Flag kFlags[] = {
    {"--json", [](Arguments& arguments) { arguments.json = true; }},
    {"--help", [](Arguments& arguments) { arguments.help = true; }},
    {"-h", [](Arguments& arguments) { arguments.help = true; }},
    {"--all", [](Arguments& arguments) { arguments.all = true; }},
    {"--version", [](Arguments& arguments) { arguments.version = true; }},
    {"--once", [](Arguments& arguments) { arguments.iterations = 1; }},
};

bool set_flag(std::string_view word, Arguments& arguments) {
  for (const Flag& flag : kFlags) {
    if (flag.name != word) continue;
    flag.set(arguments);
    return true;
  }
  return false;
}

// Reads the option at `words[0]`, with a value in the same or the next word. Returns the number of
// words.
Result<std::size_t> read_option(std::span<const std::string_view> words, Arguments& arguments) {
  const std::string_view word = words[0];
  if (word == "--") {
    arguments.command_line.assign(words.begin() + 1, words.end());
    return words.size();
  }
  if (set_flag(word, arguments)) return std::size_t{1};
  const std::size_t equals = word.find('=');
  for (const ValueOption& option : kValueOptions) {
    if (option.name != word.substr(0, equals)) continue;
    const bool inside = equals != std::string_view::npos;
    if (!inside && words.size() < 2) return wrong(word, "needs " + std::string(option.takes));
    if (!option.set(inside ? word.substr(equals + 1) : words[1], arguments))
      return wrong(option.name, "needs " + std::string(option.takes));
    return std::size_t{inside ? 1U : 2U};
  }
  return wrong(word, "is no option of larderctl");
}

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string_view> words) {
  return parse_options_anywhere<Arguments>(words, read_option);
}

}  // namespace larder::ctl
