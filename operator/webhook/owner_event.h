// The Event that tells of a pod which was left alone: on its owner, since the pod itself is not there yet. Thread-safe.
#pragma once

#include <optional>

#include "operator/k8s/event_recorder.h"
#include "operator/webhook/review.h"

namespace larder::webhook {

// On the pod itself where the pod has no owner, on the pool where the pod has no name either. Nothing where no name is one. `kubectl
// describe` lists the Events of an object by its uid. A pod under admission has no uid yet, so that `kubectl get events` alone lists
// the Events of a pod.
std::optional<k8s::Event> left_alone_event(const PodReview::Left& left);

// The same in the log, under the keys of the pod (NAME, or GENERATENAME*) and of the pool; one line a second of each address
// `left.from`, since whoever reaches the webhook may send reviews.
void log_left_alone(const PodReview::Left& left);

}  // namespace larder::webhook
