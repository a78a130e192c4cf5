// One screen of `kubectl larder top`: what each larderd does now, as differences of two snapshots. Pure; thread-safe.
#pragma once

#include <map>
#include <string>

#include "operator/kubectl/gather.h"

namespace larder::kubectl {

// By the uid of the pod.
using SnapshotsByUid = std::map<std::string, ctl::Snapshot>;

SnapshotsByUid answers_of(const Fleet& fleet);

// `before`: the answers before these; a larderd that is not among them, or was restarted, has no rates yet.
std::string pool_top(const Fleet& now, const SnapshotsByUid& before);

}  // namespace larder::kubectl
