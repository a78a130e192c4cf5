// Why an injected pod has few or no hits, from facts alone. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/namespace_diagnostics.h"
#include "operator/kubectl/pod_state.h"
#include "sidecar/ctl/snapshot.h"

namespace larder::kubectl {

struct HitFacts {
  PodState pod;
  std::optional<PodState> larderd_pod;     // the pod of larderd: the same pod, or a pod of its node
  const ctl::Snapshot* larderd = nullptr;  // larderd's answer; null: no answer
  Status not_asked = {};                   // why there is no answer
  Snapshots others = {};                   // other larderds of the pool
  bool by_node = false;                    // placement Node
  bool has_backend = false;
  bool adds_flags = true;        // spec.engine.flags
  std::string engine_says = {};  // why_off() of the engine's log; only if has_no_namespace()
};

// At least one finding, in order of severity.
Findings why_no_hits(const HitFacts& facts);

// Whether no attached engine has opened a namespace, because the cache is off or the weights are
// not yet known. Also true without attached engines.
bool has_no_namespace(const ctl::Snapshot& now);

// The last line of an engine's log in which the shim says why the cache is off; empty: none.
std::string why_off(const std::string& log);

// The hit share of the requested tokens, "42%"; "-": no requests.
std::string hit_ratio(const ctl::ModelCounts& counts);

}  // namespace larder::kubectl
