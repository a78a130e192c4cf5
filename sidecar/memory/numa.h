// The NUMA nodes of the arena: the meaning of memory.numa on this machine, and the binding.
// Stateless; runs at start.
//
// Uses system calls directly, because libnuma would be a dependency of larderd for one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::memory {

using NumaNodes = std::vector<unsigned>;  // ascending

// Parses and prints a list such as "0-2,5".
NumaNodes parse_node_list(std::string_view text);
std::string print_node_list(const NumaNodes& nodes);

// The nodes of this machine, and the nodes that this process may use.
struct NumaFacts {
  NumaNodes with_memory;    // empty: a kernel without NUMA
  NumaNodes allowed;        // by cpuset
  NumaNodes of_processors;  // nodes of the processors that this process may run on
};
// `root`: "" in the product; a folder with /sys and /proc in tests.
NumaFacts read_numa_facts(const std::string& root);

struct NumaPlan {
  NumaNodes nodes;  // empty: no binding
  bool interleaved = false;
  bool optional = false;  // whether larderd may go on without the binding

  std::string text() const;  // "none", "node 1", "nodes 0-1 interleaved"
};

// none: no binding. auto: the node of the processors that larderd may run on, if that is one node;
// else interleaved over all allowed nodes; no binding on a machine with one node. A number: that
// node. kInvalidArgument: the node does not exist, has no memory, or is not allowed to this
// process; the error lists the allowed nodes.
Result<NumaPlan> plan_numa(const std::string& setting, const NumaFacts& facts);

// Makes new pages of this shared mapping come from the nodes of the plan. On tmpfs the binding
// holds for a first touch by any process, on hugetlbfs for a touch through this mapping. Present
// pages stay in place. REQUIRES: the plan has nodes. kPermissionDenied: seccomp forbids the call
// (containers without CAP_SYS_NICE).
Status bind_memory(const NumaPlan& plan, std::span<std::byte> memory);

// The nodes outside of `nodes` that have pages of this memory, by a sample. REQUIRES: all pages are
// present.
NumaNodes other_nodes(const NumaNodes& nodes, std::span<std::byte> memory);

// The total memory of these nodes, in bytes.
std::uint64_t memory_of_nodes(const NumaNodes& nodes);

}  // namespace larder::memory
