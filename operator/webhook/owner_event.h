// The Event that tells of a pod which was left alone: on its owner, since the pod itself is not there yet. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "operator/k8s/event_recorder.h"

namespace larder::webhook {

// On the pod itself where it has no owner, on the pool where it has no name either. Nothing where no name is one. `pool_uid`: of the
// pool that it names, empty where there is none: `kubectl describe` lists the Events of an object by its uid. A pod has none before it
// is there, so that `kubectl get events` alone lists its.
std::optional<k8s::Event> left_alone_event(const api::Object& pod, const std::string& ns, const std::string& pool_uid,
                                           const std::string& why);

// The same in the log, under the keys of the pod (NAME, or GENERATENAME*) and of the pool that it names; one line a second of each
// address `from`, since whoever reaches the webhook may send reviews.
void log_left_alone(const api::Object& pod, const std::string& ns, const std::string& why, std::string_view from);

}  // namespace larder::webhook
