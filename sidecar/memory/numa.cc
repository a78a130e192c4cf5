#include "sidecar/memory/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>

namespace larder::memory {
namespace {

constexpr unsigned kMaxNodes = 1024;  // the largest CONFIG_NODES_SHIFT of the kernel
const std::string kNodes = "/sys/devices/system/node/";

// Empty for a missing file: a kernel without NUMA has no such folder.
std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// The nodes of this process's cpuset: a container may be limited to some nodes.
NumaNodes allowed_nodes(const std::string& root) {
  std::ifstream status(root + "/proc/self/status");
  constexpr std::string_view kName = "Mems_allowed_list:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kName))
      return parse_node_list(std::string_view(line).substr(kName.size()));
  return {};
}

bool may_run_on(const NumaNodes& processors) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  // A machine with more CPUs than cpu_set_t holds gives EINVAL: then every node counts as near.
  if (::sched_getaffinity(0, sizeof(mine), &mine) != 0) return true;
  return std::any_of(processors.begin(), processors.end(),
                     [&](unsigned cpu) { return cpu < CPU_SETSIZE && CPU_ISSET(cpu, &mine); });
}

bool contains(const NumaNodes& nodes, unsigned node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

NumaNodes both(const NumaNodes& a, const NumaNodes& b) {
  NumaNodes result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

NumaPlan plan_auto(const NumaFacts& facts) {
  NumaPlan plan;
  plan.optional = true;  // auto must not fail the start, for example under seccomp
  // One node: a binding would change nothing and could only fail.
  if (facts.with_memory.size() < 2) return plan;
  const NumaNodes usable = both(facts.with_memory, facts.allowed);
  // "Near": nodes of the CPUs that this process may use. A pod with the CPU manager's static policy
  // has one such node.
  const NumaNodes near = both(usable, facts.of_processors);
  // Engines of several nodes read the arena: interleaved memory is equally far for all.
  plan.nodes = near.size() == 1 ? near : usable;
  plan.interleaved = plan.nodes.size() > 1;
  return plan;
}

}  // namespace

// The form of the kernel, "0-1,3"; other characters are skipped.
NumaNodes parse_node_list(std::string_view text) {
  NumaNodes nodes;
  const auto number = [&text](unsigned& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc();
  };
  while (!text.empty()) {
    unsigned first = 0, last = 0;
    if (!number(first)) {
      text.remove_prefix(1);
      continue;
    }
    last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!number(last)) last = first;
    }
    for (unsigned node = first; node <= last && node < kMaxNodes; ++node) nodes.push_back(node);
  }
  return nodes;
}

std::string print_node_list(const NumaNodes& nodes) {
  std::string text;
  for (std::size_t i = 0; i < nodes.size();) {
    std::size_t end = i;
    while (end + 1 < nodes.size() && nodes[end + 1] == nodes[end] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(nodes[i]);
    if (end != i) text += "-" + std::to_string(nodes[end]);
    i = end + 1;
  }
  return text;
}

NumaFacts read_numa_facts(const std::string& root) {
  NumaFacts facts;
  facts.with_memory = parse_node_list(first_line(root + kNodes + "has_memory"));
  facts.allowed = allowed_nodes(root);
  // A node without memory may have CPUs, and a node without CPUs may have memory (CXL).
  for (const unsigned node : parse_node_list(first_line(root + kNodes + "online")))
    if (may_run_on(parse_node_list(
            first_line(root + kNodes + "node" + std::to_string(node) + "/cpulist"))))
      facts.of_processors.push_back(node);
  return facts;
}

std::string NumaPlan::text() const {
  if (nodes.empty()) return "none";
  return (nodes.size() == 1 ? "node " : "nodes ") + print_node_list(nodes) +
         (interleaved ? " interleaved" : "");
}

Result<NumaPlan> plan_numa(const std::string& setting, const NumaFacts& facts) {
  if (setting == "none") return NumaPlan{};
  if (setting == "auto") return plan_auto(facts);
  const NumaNodes wanted = parse_node_list(setting);
  const auto refuse = [&](const std::string& why, const NumaNodes& good) {
    const std::string those = good.empty() ? "none" : print_node_list(good);
    return Status(Code::kInvalidArgument, "memory.numa " + setting + ": " + why + those +
                                              "; memory.numa: auto lets larderd choose");
  };
  if (wanted.size() != 1) return refuse("is no node; nodes with memory here: ", facts.with_memory);
  if (!contains(facts.with_memory, wanted[0]))
    return refuse("this machine has no such node with memory; nodes with memory here: ",
                  facts.with_memory);
  // mbind() would fail with EINVAL, which names neither the node nor the cpuset.
  if (!contains(facts.allowed, wanted[0]))
    return refuse("this process may not use that node (cpuset); allowed here: ",
                  both(facts.with_memory, facts.allowed));
  return NumaPlan{wanted};
}

Status bind_memory(const NumaPlan& plan, std::span<std::byte> memory) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMaxNodes / kBits> mask{};
  for (const unsigned node : plan.nodes) mask[node / kBits] |= 1UL << (node % kBits);
  // MPOL_BIND and not MPOL_PREFERRED: a number in memory.numa is a promise, and a silent other node
  // would break the promise.
  const int mode = plan.interleaved ? MPOL_INTERLEAVE : MPOL_BIND;
  // The kernel reads one bit less than the given number.
  if (::syscall(SYS_mbind, memory.data(), memory.size(), mode, mask.data(), kMaxNodes + 1, 0) == 0)
    return {};
  const int error = errno;
  // EPERM comes from Docker's default seccomp profile, which allows mbind() only with CAP_SYS_NICE.
  const std::string hint =
      error == EPERM ? " (seccomp: give the container CAP_SYS_NICE, or set memory.numa: none)" : "";
  return Status::from_errno(error, "mbind of the arena to " + plan.text() + hint);
}

// Samples 64 pages, since a terabyte has too many pages to ask for each.
NumaNodes other_nodes(const NumaNodes& nodes, std::span<std::byte> memory) {
  constexpr std::size_t kSamples = 64;
  NumaNodes others;
  for (std::size_t i = 0; i < std::min(kSamples, memory.size()); ++i) {
    int node = 0;
    // The kernel would make a page that is not present (get_mempolicy(2)), so callers pass touched
    // bytes only.
    std::byte* page = &memory[memory.size() / kSamples * i];
    if (::syscall(SYS_get_mempolicy, &node, nullptr, 0, page, MPOL_F_NODE | MPOL_F_ADDR) != 0 ||
        node < 0)
      break;
    const auto found = static_cast<unsigned>(node);
    if (!contains(nodes, found) && !contains(others, found)) others.push_back(found);
  }
  std::sort(others.begin(), others.end());
  return others;
}

std::uint64_t memory_of_nodes(const NumaNodes& nodes) {
  std::uint64_t total = 0;
  for (const unsigned node : nodes) {
    std::ifstream file(kNodes + "node" + std::to_string(node) + "/meminfo");
    std::string name, number;
    std::uint64_t kib = 0;
    if (file >> name >> number >> name >> kib)
      total += kib << 10;  // the first line: "Node 0 MemTotal: 24602544 kB"
  }
  return total;
}

}  // namespace larder::memory
