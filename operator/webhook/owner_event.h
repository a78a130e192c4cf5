// The Event that tells of a pod which was left alone: on its owner, since the pod itself is not there yet. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "operator/k8s/event_recorder.h"

namespace larder::webhook {

// Nothing for a pod that has neither an owner nor a name: its annotation says it, when it is there.
std::optional<k8s::Event> left_alone_event(const api::Object& pod, const std::string& ns, const std::string& why);

}  // namespace larder::webhook
