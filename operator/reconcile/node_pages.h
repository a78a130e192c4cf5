// How many huge pages nodes have for pods and how many of them are free, in words: for a pool whose pods wait for some. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operator/k8s/api_client.h"

namespace larder::reconcile {

// What a pod asks for of a resource ("hugepages-2Mi"), in bytes, as the scheduler counts it: its containers and sidecars together, or
// an init container that asks for more. 0: it is over. Pure.
std::uint64_t asked_by(const api::Object& pod, std::string_view resource);

// "node-a 12 free of 512, node-b 0 free of 100; 3 nodes have none": five nodes, those with the most pages first. A page is free that no
// pod of its node asks for. Empty: they could not be asked. `page`: 2Mi or 1Gi.
std::string pages_of_nodes(k8s::ApiClient& client, const std::string& page);

}  // namespace larder::reconcile
