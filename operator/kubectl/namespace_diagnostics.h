// Whether the engines of a pod and those of the other pods of its pool can share what they store: whether they have a namespace in
// common, and if not, which fields of their fingerprints differ. Pure; thread-safe.
#pragma once

#include <map>
#include <string>

#include "operator/kubectl/diagnostic.h"
#include "sidecar/ctl/snapshot.h"

namespace larder::kubectl {

// What larderds of a pool say, by the name of their pod. They belong to the caller.
using Snapshots = std::map<std::string, const ctl::Snapshot*>;

// `others`: it alone may be among them too.
Findings namespace_findings(const ctl::Snapshot& own, const Snapshots& others);

// What to do where one field of a fingerprint differs, by its name; empty: nothing is known.
std::string remedy_of_field(const std::string& field);

}  // namespace larder::kubectl
