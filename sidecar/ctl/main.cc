// larderctl: asks a running larderd. Wiring only.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/config/loader.h"
#include "sidecar/ctl/admin_client.h"
#include "sidecar/ctl/report.h"

namespace larder::ctl {
namespace {

constexpr const char* kUsage =
    "usage: larderctl [--socket PATH] [--json] COMMAND\n\n"
    "  status          is it helping? hits, prefill saved, memory, sessions\n"
    "  drop NAMESPACE  drop what a namespace holds (id or a unique prefix of it, at least 4 digits; status lists them)\n"
    "  clear           drop everything\n\n"
    "  --socket PATH   larderd's admin socket; else $LARDER_CONFIG_FILE and LARDER_* variables say, as they do to larderd\n"
    "  --json          larderd's answer as it is\n"
    "  --version       print the version\n";

struct Arguments {
  std::string socket;
  bool json = false, help = false, version = false;
  std::vector<std::string> words;
};

Result<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      arguments.json = true;
    } else if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else if (word == "--version") {
      arguments.version = true;
    } else if (word == "--socket" && i + 1 < argc) {
      arguments.socket = argv[++i];
    } else if (word.starts_with("--socket=")) {
      arguments.socket = word.substr(word.find('=') + 1);
    } else if (word.starts_with("-")) {
      const std::string why = word == "--socket" ? "needs a path" : "is no option of larderctl";
      return Status(Code::kInvalidArgument, "'" + std::string(word) + "' " + why);
    } else {
      arguments.words.emplace_back(word);
    }
  }
  return arguments;
}

Result<std::string> admin_socket(const Arguments& arguments) {
  if (!arguments.socket.empty()) return arguments.socket;
  const Result<config::Config> config = config::load(std::nullopt, config::process_environment());
  if (!config.ok()) return config.status();
  return config->http.admin_socket;
}

// The answer of one command as text for the terminal.
Result<std::string> act(const Arguments& arguments, const std::string& socket) {
  const std::string& command = arguments.words[0];
  const bool status = command == "status";
  const std::string path = status              ? "/v1/status"
                           : command == "drop" ? "/v1/drop?namespace=" + percent_encoded(arguments.words[1])
                                               : "/v1/clear";
  const Result<std::string> answer = ask_larderd(socket, status ? Verb::kGet : Verb::kPost, path);
  if (!answer.ok() || arguments.json) return answer;
  return status ? status_report(*answer) : dropped_report(*answer);
}

// Why the words are no command.
Status check_command(const std::vector<std::string>& words) {
  const auto wrong = [](const std::string& why) { return Status(Code::kInvalidArgument, why); };
  if (words.empty()) return wrong("which command?");
  if (words[0] != "status" && words[0] != "drop" && words[0] != "clear") return wrong("'" + words[0] + "' is no command");
  const std::size_t expected = words[0] == "drop" ? 2 : 1;
  if (words.size() < expected) return wrong("drop which namespace? `larderctl status` lists them");
  if (words.size() > expected) return wrong("'" + words[expected] + "' is too much for '" + words[0] + "'");
  return {};
}

int usage_error(const Status& status) {
  std::fprintf(stderr, "larderctl: %s\n%s", status.text().c_str(), kUsage);
  return 2;
}

int run(int argc, char** argv) {
  const Result<Arguments> arguments = parse(argc, argv);
  if (!arguments.ok()) return usage_error(arguments.status());
  if (arguments->help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (arguments->version) {
    std::printf("larderctl %s\n", LARDER_VERSION);
    return 0;
  }
  if (const Status status = check_command(arguments->words); !status.ok()) return usage_error(status);
  const Result<std::string> socket = admin_socket(*arguments);
  const Result<std::string> report = socket.ok() ? act(*arguments, *socket) : socket;
  if (!report.ok()) {
    std::fprintf(stderr, "larderctl: %s\n", report.status().text().c_str());
    return 1;
  }
  std::fputs(report->c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace larder::ctl

int main(int argc, char** argv) {
  return larder::ctl::run(argc, argv);
}
