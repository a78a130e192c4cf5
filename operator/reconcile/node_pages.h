// How many huge pages nodes have for pods, how many of them are free, and how many a node should have: for a pool whose pods wait for
// some. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/k8s/api_client.h"

namespace larder::reconcile {

// What a pod asks for of a resource ("hugepages-2Mi"), in bytes, as the scheduler counts it: its containers and sidecars together, or
// an init container that asks for more. 0: it is over. Pure.
std::uint64_t asked_by(const api::Object& pod, std::string_view resource);

// Of one node, in pages. Free is what no pod of the node asks for; nothing: its pods could not be asked.
struct NodePages {
  std::string node;
  std::uint64_t total = 0;
  std::optional<std::uint64_t> free;
};

struct PagesSeen {
  bool known = false;            // false: nodes could not be asked
  std::vector<NodePages> nodes;  // five that have some, those with the most first
  std::size_t more = 0;          // others that have some
  std::size_t without = 0;       // nodes that have none
};

// `page`: 2Mi or 1Gi.
PagesSeen pages_of_nodes(k8s::ApiClient& client, const std::string& page);

// "node-a 12 free of 512, node-b 0 free of 100; 3 without any". Pure.
std::string text_of(const PagesSeen& seen);

// "1012 on node-a, 612 on node-b": how many pages each of those that have too few must have in all, so that `needed` are free beside
// what pods ask for. Empty: there is none of which that is known. Pure.
std::string totals_for(const PagesSeen& seen, std::uint64_t needed);
// Whether a node has so many free. Pure.
bool have_enough(const PagesSeen& seen, std::uint64_t needed);

}  // namespace larder::reconcile
