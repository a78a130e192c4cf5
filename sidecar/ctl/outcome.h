// Outcome: the output of a command, and the exit status of larderctl. A plain value.
#pragma once

#include <string>

namespace larder::ctl {

struct Outcome {
  std::string text;  // for standard output
  int exit_status = 0;
};

}  // namespace larder::ctl
