// The commands of larderctl: one table for the check of the words, --help and main().
// Thread-compatible.
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
  std::string_view operands;  // in the form of --help
  std::size_t least, most;    // number of operands
  std::string_view missing;   // the error for too few operands
  std::string_view help;      // print() indents the lines after the first
  // An error is a sentence for the user.
  Result<Outcome> (*run)(const Arguments& arguments);
  int failed = 1;         // the exit status of an error
  bool for_pods = false;  // for probes and init containers
};

std::span<const Command> commands();

// The command that the words name. An error names the fault of the words.
Result<const Command*> find_command(const Arguments& arguments);

// The text of --help: the commands for people. `all` (--help --all): the commands for pods too.
std::string usage(bool all = false);

}  // namespace larder::ctl
