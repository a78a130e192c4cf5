// Why an injected pod finds little or nothing in its cache: judged from facts alone. Pure; thread-safe.
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
  std::optional<PodState> larderd_pod;     // the pod that larderd runs in: itself, or with placement Node that of its node
  const ctl::Snapshot* larderd = nullptr;  // what it says; null: nothing
  Status not_asked = {};                   // why it said nothing
  Snapshots others = {};                   // of the pool
  bool by_node = false;                    // placement Node
  bool has_backend = false;
  bool adds_flags = true;        // spec.engine.flags
  std::string engine_says = {};  // the last line of the engine's log that says why the cache is off; read if has_no_namespace()
};

// The heaviest first, at least one.
Findings why_no_hits(const HitFacts& facts);

// Whether no attached engine has opened a namespace: it is off, or does not know its weights yet. True also where none is attached.
bool has_no_namespace(const ctl::Snapshot& now);

// Of an engine's log the last line in which the shim says why it is off; empty: there is none.
std::string why_off(const std::string& log);

// "42%" of the tokens asked for; "-": nothing was asked.
std::string hit_ratio(const ctl::ModelCounts& counts);

}  // namespace larder::kubectl
