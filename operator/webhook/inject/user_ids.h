// User and group of the added containers, for namespaces with ids (OpenShift) and for pools that
// leave ids to the platform.
//
// Pure; thread-safe; never throws.
#pragma once

#include <cstdint>
#include <optional>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

struct UserIds {
  std::optional<std::int64_t> user;                    // of larderd; empty: not set
  std::optional<std::int64_t> group;                   // of larderd, its socket, and the engine
  std::optional<std::int64_t> volume_group;            // fsGroup, if a volume needs one
  std::optional<std::int64_t> payload, payload_group;  // of the payload's container
  std::optional<std::int64_t> plugin;                  // of a plug-in beside larderd
};

// OpenShift names the ids of a namespace in the annotations openshift.io/sa.scc.uid-range and
// .supplemental-groups. larderd gets an id of the range that no container of the pod has. larderd
// does not get the first id, which OpenShift gives to the engine. OpenShift admits a pod with a
// user outside the range by another rule; larderd then has the default 65532, or the next lower id
// that no container has. kUnsupported: why OpenShift would refuse the pod, and the remedy.
// REQUIRES: input.pod has the form of a pod, and input.pool exists.
Result<UserIds> user_ids(const Input& input);

}  // namespace larder::webhook
