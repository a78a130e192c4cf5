#include "sidecar/ctl/larderctl.h"

#include <cstdio>
#include <string>

#include "sidecar/ctl/arguments.h"
#include "sidecar/ctl/commands.h"

namespace larder::ctl {
namespace {

constexpr int kExitUsage = 2;

// To standard error with status 2, so a script can tell a wrong call from a larderd that is away.
int usage_error(const Status& status) {
  std::fprintf(stderr, "larderctl: %s\n%s", status.text().c_str(), usage().c_str());
  return kExitUsage;
}

}  // namespace

int run(std::span<const std::string_view> words) {
  const Result<Arguments> arguments = parse_arguments(words);
  if (!arguments.ok()) return usage_error(arguments.status());
  if (arguments->help) {
    std::fputs(usage(arguments->all).c_str(), stdout);
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
    // 1 for most commands; `backend check` has 2, since its 1 means "usable, with warnings".
    return (*command)->failed;
  }
  // Output is one write at the end: a failed command prints no half of a result. main() checks that
  // standard output took all of it.
  std::fputs(outcome->text.c_str(), stdout);
  return outcome->exit_status;
}

}  // namespace larder::ctl
