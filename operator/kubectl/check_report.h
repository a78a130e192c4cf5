// `kubectl larder check`: the verdict on each pod, as text with a diff, YAML and JSON. Pure;
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/kubectl/check_diagnostics.h"

namespace larder::kubectl {

struct CheckReport {
  std::vector<Checked> pods;
  std::vector<std::string> without;  // see Planned
  std::string unread;                // kubectl's message about unreadable parts of the files
};

// 0: at least one pod requests a cache, and each such pod is accepted with one. 1: otherwise. 2:
// unknown.
int check_status(const CheckReport& report);

// The text, with Larder's changes of each pod.
std::string check_text(const CheckReport& report);
// The resulting pods, one document each, with problems as comments.
std::string check_yaml(const CheckReport& report);
std::string check_json(const CheckReport& report);

}  // namespace larder::kubectl
