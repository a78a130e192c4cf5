// The objects of a managed backend: the server of one pod that the operator runs. None of a backend that somebody else runs.
//
// Pure; thread-safe. Each object is whole: kind, namespace, labels, owner. All are called api::managed_name(), but
// the ConfigMap: a pool of the backend's name has one in placement Node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/desired/larderd.h"

namespace larder::desired {

std::vector<api::Object> backend_objects(const api::CacheBackend& backend, const Defaults& defaults);

// One a kind. REQUIRES: the backend is managed.
api::Object config_map(const api::CacheBackend& backend);
api::Object stateful_set(const api::CacheBackend& backend, const Defaults& defaults);
api::Object service(const api::CacheBackend& backend);
api::Object disruption_budget(const api::CacheBackend& backend);
api::Object network_policy(const api::CacheBackend& backend, const Defaults& defaults);

// The server's configuration, in the ConfigMap under kServerFile. No password in it. REQUIRES: managed.
std::string server_config(const api::CacheBackend& backend);
std::string server_config_name(const api::CacheBackend& backend);  // of the ConfigMap
inline constexpr std::string_view kServerFile = "server.conf";

}  // namespace larder::desired
