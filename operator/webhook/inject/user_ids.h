// Who our containers run as, where the namespace has ids of its own (OpenShift) or the pool leaves them to the platform.
//
// Pure; thread-safe; never throws.
#pragma once

#include <cstdint>
#include <optional>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

struct UserIds {
  std::optional<std::int64_t> user;                    // of larderd; nothing: left out
  std::optional<std::int64_t> group;                   // of larderd, its socket, and the engine beside its own
  std::optional<std::int64_t> volume_group;            // fsGroup, where a volume needs one
  std::optional<std::int64_t> payload, payload_group;  // of the payload's container
};

// A namespace of OpenShift names its ids in the annotations openshift.io/sa.scc.uid-range and .supplemental-groups: larderd then has
// one of the range that no container of the pod has, and not the first, which OpenShift gives the engine. A pod with a user outside of
// the range is admitted by another rule, and its ids are as everywhere: 65532, or the next below that no container has.
// kUnsupported: why a pod with these ids would be refused, and what to do. REQUIRES: input.pod has the form of a pod, input.pool is there.
Result<UserIds> user_ids(const Input& input);

}  // namespace larder::webhook
