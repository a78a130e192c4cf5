// Paths of the API server (Kubernetes' docs/reference/using-api), with escaped names and selectors.
// Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/k8s/api_client.h"

namespace larder::k8s {

// Encodes every byte except letters, digits and "-_.~" as %XX.
std::string escaped(std::string_view text);

// "/apis/apps/v1/namespaces/ml/daemonsets/a/status"; without a name, the collection. The path has
// no namespace for cluster-wide kinds and for an empty `ns` (all namespaces).
std::string path_of(const Resource& resource, const std::string& ns, const std::string& name = "",
                    const std::string& subresource = "");

using Query = std::vector<std::pair<std::string, std::string>>;
// "?a=b&c=d", escaped, without parts that have no value.
std::string query_of(const Query& query);

// labelSelector and fieldSelector.
Query query_of(const Selector& selector);

// "apps/v1".
std::string api_version(const Resource& resource);

}  // namespace larder::k8s
