// The arena's NUMA nodes: what memory.numa means on this machine, and the binding itself. Stateless; runs at start.
//
// Written on system calls: libnuma would be a library in larderd for one call.
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

// "0-2,5" and back.
NumaNodes parse_node_list(std::string_view text);
std::string print_node_list(const NumaNodes& nodes);

// What this machine has and what this process may use.
struct NumaFacts {
  NumaNodes with_memory;    // empty: the kernel knows no nodes
  NumaNodes allowed;        // by cpuset
  NumaNodes of_processors;  // nodes of the processors that this process may run on
};
// `root` is "" but in tests.
NumaFacts read_numa_facts(const std::string& root);

struct NumaPlan {
  NumaNodes nodes;  // empty: no binding
  bool interleaved = false;
  bool optional = false;  // the arena may be used without it

  std::string text() const;  // "none", "node 1", "nodes 0-1 interleaved"
};

// none: no binding. auto: the node of the processors that larderd may run on, where that is one; else interleaved over all that it
// may use; nothing on a machine with one node. A number: that node. kInvalidArgument: the node does not exist, has no memory, or is
// not allowed to this process; names those that are.
Result<NumaPlan> plan_numa(const std::string& setting, const NumaFacts& facts);

// From here on new pages of this shared mapping come from the plan's nodes alone; on tmpfs whoever touches them first, on hugetlbfs
// where it is by this mapping. Pages that are there stay. REQUIRES: nodes. The error names the cause: kPermissionDenied where seccomp
// forbids it (containers without CAP_SYS_NICE).
Status bind_memory(const NumaPlan& plan, std::span<std::byte> memory);

// Which other nodes than `nodes` this memory stands on, by a sample of its pages. REQUIRES: all of it is there.
NumaNodes other_nodes(const NumaNodes& nodes, std::span<std::byte> memory);

// Bytes of memory that these nodes have in all.
std::uint64_t memory_of_nodes(const NumaNodes& nodes);

}  // namespace larder::memory
