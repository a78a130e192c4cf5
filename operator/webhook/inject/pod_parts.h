// What is added to a pod beside its engine: containers, volumes, groups.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"
#include "operator/webhook/inject/engine_container.h"
#include "operator/webhook/inject/inject.h"
#include "operator/webhook/inject/user_ids.h"

namespace larder::webhook {

// REQUIRES: wrong_form(pod) found nothing, input.pool is there.
void add_containers(api::Object& pod, const Input& input, const std::vector<EngineContainer>& engines, const UserIds& ids);
// By which larderd's image is pulled, beside the pod's own.
void add_pull_secrets(api::Object& pod, const Input& input);
void add_volumes(api::Object& pod, const Input& input);
// So that an engine of any user may use larderd's socket, which belongs to larderd's group.
void add_groups(api::Object& pod, const Input& input, const UserIds& ids);
// The socket and the payload, in an engine's container. kUnsupported: something else is mounted there, and what to do.
Status add_mounts(api::Object& container, const Input& input);

}  // namespace larder::webhook
