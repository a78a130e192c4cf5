// Huge pages of nodes: the pages for pods, the free ones, and the number that a node needs. For a
// pool whose pods wait for pages. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/k8s/api_client.h"

namespace larder::reconcile {

// A pod's request for a resource ("hugepages-2Mi") in bytes, as counted by the scheduler: the sum
// of containers and sidecars, or a larger request of an init container. 0: the pod is over. Pure.
std::uint64_t asked_by(const api::Object& pod, std::string_view resource);

// Pages of one node. Free pages have no request of a pod; empty: the node's pods are unknown.
struct NodePages {
  std::string node;
  std::uint64_t total = 0;
  std::optional<std::uint64_t> free;
};

struct PagesSeen {
  bool known = false;            // false: the nodes are unknown
  std::vector<NodePages> nodes;  // the five nodes with the most pages
  std::size_t more = 0;          // other nodes with pages
  std::size_t without = 0;       // nodes without pages
};

// `page`: 2Mi or 1Gi.
PagesSeen pages_of_nodes(k8s::ApiClient& client, const std::string& page);

// "node-a 12 free of 512, node-b 0 free of 100; 3 without any". Pure.
std::string text_of(const PagesSeen& seen);

// "1012 on node-a, 612 on node-b": the total pages that each node with too few must have, so that
// `needed` are free beside the requests of pods. Empty: no such node is known. Pure.
std::string totals_for(const PagesSeen& seen, std::uint64_t needed);
// Whether a node has `needed` free pages. Pure.
bool have_enough(const PagesSeen& seen, std::uint64_t needed);

}  // namespace larder::reconcile
