// larderctl: asks a running larderd, and helps to configure one. Under the name kubectl-larder it is kubectl's plug-in. Wiring only.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/ctl/arguments.h"
#include "sidecar/ctl/commands.h"
#include "sidecar/ctl/kube/plugin.h"

namespace larder::ctl {
namespace {

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
  const Result<Outcome> outcome = (*command)->run(*arguments);
  if (!outcome.ok()) {
    std::fprintf(stderr, "larderctl: %s\n", outcome.status().text().c_str());
    return (*command)->failed;
  }
  std::fputs(outcome->text.c_str(), stdout);
  return outcome->exit_status;
}

}  // namespace
}  // namespace larder::ctl

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (larder::kube::is_plugin(argv[0])) return larder::kube::run_plugin(words);
  return larder::ctl::run(words);
}
