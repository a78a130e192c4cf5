// The commands of larderctl: one table that the check of the words, --help and main() read. Thread-compatible.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"
#include "sidecar/ctl/outcome.h"

namespace larder::ctl {

struct Command {
  std::string_view name;
  std::string_view operands;  // as --help shows them
  std::size_t least, most;    // how many of them
  std::string_view missing;   // what is said when there are fewer
  std::string_view help;      // its lines after the first are indented by print
  // An error is a sentence for the user.
  Result<Outcome> (*run)(const Arguments& arguments);
  int failed = 1;         // the exit status then
  bool for_pods = false;  // run by probes and init containers
};

std::span<const Command> commands();

// The command that the words name. An error says what is wrong with them.
Result<const Command*> find_command(const Arguments& arguments);

// The text of --help: commands for people, and the names of the commands for pods. `all`, of --help --all: both in full.
std::string usage(bool all = false);

}  // namespace larder::ctl
