// Our own kinds in a real API server: the definitions of charts/larder/files/crds, installed and
// served.
#pragma once

#include "operator/k8s/api_client.h"

namespace larder::kube_test {

// Makes the namespaces `namespaces` too. Returns when pools and backends can be made; 10 s at most.
Status install_definitions(k8s::ApiClient& client, const std::vector<std::string>& namespaces);

}  // namespace larder::kube_test
