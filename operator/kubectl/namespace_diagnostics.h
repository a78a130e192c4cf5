// Whether the engines of a pod can share chunks with other pods of the pool: whether they have a
// common namespace, and otherwise the differing fields of their fingerprints. Pure; thread-safe.
#pragma once

#include <map>
#include <string>

#include "operator/kubectl/diagnostic.h"
#include "sidecar/ctl/snapshot.h"

namespace larder::kubectl {

// Answers of a pool's larderds by name of the pod. The caller owns the answers.
using Snapshots = std::map<std::string, const ctl::Snapshot*>;

// `others` may include the pod itself.
Findings namespace_findings(const ctl::Snapshot& own, const Snapshots& others);

// The remedy for a differing field of a fingerprint, by name; empty: unknown.
std::string remedy_of_field(const std::string& field);

}  // namespace larder::kubectl
