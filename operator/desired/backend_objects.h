// The objects of a managed backend, a server of one pod. A backend run by the user has no objects.
//
// Pure; thread-safe. Each object is complete: kind, namespace, labels, owner. The name is
// api::managed_name(), except for the ConfigMap: a Node pool of the same name has a ConfigMap with
// that name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/desired/larderd.h"

namespace larder::desired {

// The source of user and group of the server's pod. OpenShift refuses ids outside the range of a
// namespace, and fills in absent ids. A namespace of OpenShift has api::kUserRangeAnnotation.
enum class ServerIds { kOurs, kPlatforms };

std::vector<api::Object> backend_objects(const api::CacheBackend& backend, const Defaults& defaults,
                                         ServerIds ids = ServerIds::kOurs);

// One builder per kind. REQUIRES: the backend is managed.
api::Object config_map(const api::CacheBackend& backend);
api::Object stateful_set(const api::CacheBackend& backend, const Defaults& defaults,
                         ServerIds ids = ServerIds::kOurs);
api::Object service(const api::CacheBackend& backend);
api::Object disruption_budget(const api::CacheBackend& backend);
api::Object network_policy(const api::CacheBackend& backend, const Defaults& defaults);

// The server's configuration without a password; key kServerFile of the ConfigMap. REQUIRES:
// managed.
std::string server_config(const api::CacheBackend& backend);
std::string server_config_name(const api::CacheBackend& backend);  // name of the ConfigMap
inline constexpr std::string_view kServerFile = "server.conf";

}  // namespace larder::desired
