// One screen of `kubectl larder top`: rates of each larderd from two snapshots. Pure; thread-safe.
#pragma once

#include <map>
#include <string>

#include "operator/kubectl/gather.h"

namespace larder::kubectl {

// Answers by uid of the pod.
using SnapshotsByUid = std::map<std::string, ctl::Snapshot>;

SnapshotsByUid answers_of(const Fleet& fleet);

// `before`: the earlier answers. A larderd without an earlier answer, or after a restart, has no
// rates yet.
std::string pool_top(const Fleet& now, const SnapshotsByUid& before);

}  // namespace larder::kubectl
