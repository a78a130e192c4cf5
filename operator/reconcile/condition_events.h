// Which Events a change of an object's conditions is worth: when it ceases to be ready, for another reason, and when it is again. What
// `kubectl describe` shows under Events tells then since when and what it was before. Pure; thread-safe.
#pragma once

#include <optional>

#include "operator/k8s/event_recorder.h"

namespace larder::reconcile {

// `object` as it stood, with its status of then; `status` as it is now. Nothing: it is as well, or as unwell, as it was.
std::optional<k8s::Event> event_of_change(const k8s::Resource& resource, const api::Object& object, const api::Object& status);

}  // namespace larder::reconcile
