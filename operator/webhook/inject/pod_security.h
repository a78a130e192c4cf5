// Whether Pod Security of the namespace refuses the additions of Larder: hostPath volumes of
// placement Node, and fields of the pool's podSecurity.
//
// Reads the label pod-security.kubernetes.io/enforce. The default level of a cluster is in a file
// of the API server, and no webhook can read it. Pure; thread-safe; never throws.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// On a namespace: the level that its pods must meet.
inline constexpr std::string_view kPodSecurityLabel = "pod-security.kubernetes.io/enforce";

// The value of this label on the pod's namespace. std::nullopt: no label, or an unknown namespace.
std::optional<std::string> enforced_level(const Input& input);

// The reason and the remedy; "": the level admits the additions, or the pod has a hostPath volume
// itself and the level is not applied to it.
std::string refused_by_pod_security(const Input& input, const api::Object& after);

}  // namespace larder::webhook
