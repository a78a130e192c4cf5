// The Event about a pod without an injection, on the pod's owner, since the pod does not exist yet.
// Thread-safe.
#pragma once

#include <optional>

#include "operator/k8s/event_recorder.h"
#include "operator/webhook/review.h"

namespace larder::webhook {

// The Event is on the owner, on a pod without an owner, or on the pool for a pod without a name.
// Empty: no valid name. `kubectl describe` finds Events by uid. A pod under admission has no uid
// yet, so only `kubectl get events` shows Events on a pod.
std::optional<k8s::Event> left_alone_event(const PodReview::Left& left);

// Logs the same text with the keys of the pod (NAME, or GENERATENAME*) and of the pool. At most one
// line per second for each address `left.from`, since any client of the webhook may send reviews.
void log_left_alone(const PodReview::Left& left);

}  // namespace larder::webhook
