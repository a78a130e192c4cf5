// `kubectl larder check`: what was found of each pod, as a text with a diff, as YAML and as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/kubectl/check_diagnostics.h"

namespace larder::kubectl {

struct CheckReport {
  std::vector<Checked> pods;
  std::vector<std::string> without;  // see Planned
  std::string unread;                // of the files, what kubectl could not read, in its words
};

// 0: each pod that asks for a cache has one and is taken, and some pod asks; 1: not so; 2: it could not be found out.
int check_status(const CheckReport& report);

// With what Larder changes in each pod.
std::string check_text(const CheckReport& report);
// The pods as they would be, a document each; what is wrong as comments.
std::string check_yaml(const CheckReport& report);
std::string check_json(const CheckReport& report);

}  // namespace larder::kubectl
