// Events for changes of an object's conditions: the object becomes not ready, the reason changes,
// or the object becomes ready. `kubectl describe` then shows since when, and the earlier problem.
// Pure; thread-safe.
#pragma once

#include <optional>

#include "operator/k8s/event_recorder.h"

namespace larder::reconcile {

// `object`: with the earlier status. `status`: the new one. Empty: no notable change.
std::optional<k8s::Event> event_of_change(const k8s::Resource& resource, const api::Object& object,
                                          const api::Object& status);

}  // namespace larder::reconcile
