// Outcome: what a command has to say, and what larderctl then ends with. A plain value.
#pragma once

#include <string>

namespace larder::ctl {

struct Outcome {
  std::string text;  // for standard output
  int exit_status = 0;
};

}  // namespace larder::ctl
