// larderctl: asks a running larderd, and helps to configure one. Wiring only.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/ctl/arguments.h"
#include "sidecar/ctl/commands.h"

namespace larder::ctl {
namespace {

constexpr int kExitRefused = 1;
constexpr int kExitUsage = 2;

int usage_error(const Status& status) {
  std::fprintf(stderr, "larderctl: %s\n%s", status.text().c_str(), usage().c_str());
  return kExitUsage;
}

int run(const std::vector<std::string_view>& words) {
  const Result<Arguments> arguments = parse_arguments(words);
  if (!arguments.ok()) return usage_error(arguments.status());
  if (arguments->help) {
    std::fputs(usage().c_str(), stdout);
    return 0;
  }
  if (arguments->version) {
    std::printf("larderctl %s\n", LARDER_VERSION);
    return 0;
  }
  const Result<const Command*> command = find_command(*arguments);
  if (!command.ok()) return usage_error(command.status());
  const Result<std::string> report = (*command)->run(*arguments);
  if (!report.ok()) {
    std::fprintf(stderr, "larderctl: %s\n", report.status().text().c_str());
    return kExitRefused;
  }
  std::fputs(report->c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace larder::ctl

int main(int argc, char** argv) {
  return larder::ctl::run(std::vector<std::string_view>(argv + 1, argv + argc));
}
