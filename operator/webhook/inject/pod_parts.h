// Additions to a pod: containers, volumes, groups.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"
#include "operator/webhook/inject/engine_container.h"
#include "operator/webhook/inject/inject.h"
#include "operator/webhook/inject/user_ids.h"

namespace larder::webhook {

// REQUIRES: wrong_form(pod) is "", and input.pool exists.
void add_containers(api::Object& pod, const Input& input,
                    const std::vector<EngineContainer>& engines, const UserIds& ids);
// Adds the pull secrets of larderd's image to the pod's own.
void add_pull_secrets(api::Object& pod, const Input& input);
void add_volumes(api::Object& pod, const Input& input);
// Adds larderd's group, which owns larderd's socket, so that an engine of any user may attach.
void add_groups(api::Object& pod, const Input& input, const UserIds& ids);
// Mounts socket and payload in an engine's container. kUnsupported: another mount has the path, and
// the remedy.
Status add_mounts(api::Object& container, const Input& input);

}  // namespace larder::webhook
