// `kubectl larder pods`: one line per pod, as a table and as JSON. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/pod_state.h"
#include "sidecar/ctl/snapshot.h"

namespace larder::kubectl {

struct PodLine {
  PodState pod;
  std::string pool;
  const ctl::Snapshot* larderd = nullptr;  // null: unknown; owned by the caller
  Findings findings;
};

// Whether an engine of the pod is attached; empty: unknown.
std::optional<bool> attached(const PodLine& line);

std::string pods_text(const std::vector<PodLine>& lines, bool with_namespace);
std::string pods_json(const std::vector<PodLine>& lines);

}  // namespace larder::kubectl
