// How many huge pages nodes have for pods, in words: for a pool whose pods wait for some. Thread-safe.
#pragma once

#include <string>

#include "operator/k8s/api_client.h"

namespace larder::reconcile {

// "node-a 512, node-b 0": those with the most first, five of them. Empty: they could not be asked. `page`: 2Mi or 1Gi.
std::string pages_of_nodes(k8s::ApiClient& client, const std::string& page);

}  // namespace larder::reconcile
