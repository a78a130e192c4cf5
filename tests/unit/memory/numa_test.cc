// The meaning of memory.numa on machines unlike this one.
#include "sidecar/memory/numa.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

namespace larder::memory {
namespace {

NumaFacts two_sockets(const NumaNodes& near) {
  return {{0, 1}, {0, 1}, near};
}

std::string planned(const std::string& setting, const NumaFacts& facts) {
  const Result<NumaPlan> plan = plan_numa(setting, facts);
  return plan.ok() ? plan->text() : plan.status().to_string();
}

TEST(NumaTest, NodeLists) {
  EXPECT_EQ(parse_node_list("0-2,5\n"), (NumaNodes{0, 1, 2, 5}));
  EXPECT_EQ(parse_node_list("\t0"), (NumaNodes{0}));
  EXPECT_TRUE(parse_node_list("").empty());
  EXPECT_LE(parse_node_list("0-4294967295").size(), 1024U);
  EXPECT_EQ(print_node_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(NumaTest, NoneBindsNothing) {
  EXPECT_EQ(planned("none", two_sockets({0})), "none");
}

TEST(NumaTest, AutoBindsToTheProcessorNodesOrInterleavesAll) {
  EXPECT_EQ(planned("auto", two_sockets({1})), "node 1");
  EXPECT_EQ(planned("auto", two_sockets({0, 1})), "nodes 0-1 interleaved");
  EXPECT_EQ(planned("auto", {{0}, {0}, {0}}), "none") << "a machine with one node needs no binding";
  EXPECT_EQ(planned("auto", {}), "none") << "a kernel without nodes";
  EXPECT_EQ(planned("auto", {{0, 1, 2}, {1, 2}, {0, 1}}), "node 1") << "node 0 is not allowed";
  EXPECT_EQ(planned("auto", {{0, 1}, {0, 1}, {2}}), "nodes 0-1 interleaved")
      << "processors on a node without memory";
}

// covers F-115
TEST(NumaTest, UnusableNodeIsReportedWithUsableNodes) {
  EXPECT_EQ(planned("1", two_sockets({0})), "node 1");
  EXPECT_EQ(planned("7", two_sockets({0})),
            "invalid argument: memory.numa 7: this machine has no such node with memory; nodes "
            "with memory here: 0-1; memory.numa: auto lets larderd choose");
  EXPECT_EQ(planned("1", {{0, 1}, {0}, {0}}),
            "invalid argument: memory.numa 1: this process may not use that node (cpuset); allowed "
            "here: 0; memory.numa: auto lets larderd choose");
  EXPECT_NE(planned("0", {}).find("nodes with memory here: none"), std::string::npos);
}

// The kernel tells the place of pages, whatever their binding was to be.
// covers F-116
TEST(NumaTest, MemoryOnOtherNodesIsFound) {
  const NumaNodes all = read_numa_facts("").with_memory;
  if (all.empty()) GTEST_SKIP() << "this kernel knows no NUMA nodes";
  constexpr std::size_t kBytes = 1 << 20;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> pages(static_cast<std::byte*>(memory), kBytes);
  EXPECT_TRUE(other_nodes(all, pages).empty());
  EXPECT_FALSE(other_nodes({1000}, pages).empty());
  EXPECT_TRUE(other_nodes({1000}, pages.first(0)).empty());
  ::munmap(memory, kBytes);
}

TEST(NumaTest, FactsAreReadFromSysfs) {
  char name[] = "/tmp/larder-numa-XXXXXX";
  const std::string root = ::mkdtemp(name);
  const std::string nodes = root + "/sys/devices/system/node";
  std::filesystem::create_directories(nodes + "/node0");
  std::filesystem::create_directories(nodes + "/node1");
  std::filesystem::create_directories(root + "/proc/self");
  std::ofstream(nodes + "/has_memory") << "0-1\n";
  std::ofstream(nodes + "/online") << "0-1\n";
  std::ofstream(nodes + "/node0/cpulist") << "0-4095\n";
  std::ofstream(nodes + "/node1/cpulist") << "\n";
  std::ofstream(root + "/proc/self/status") << "Name:\tx\nMems_allowed_list:\t1\n";
  const NumaFacts facts = read_numa_facts(root);
  EXPECT_EQ(facts.with_memory, (NumaNodes{0, 1}));
  EXPECT_EQ(facts.allowed, (NumaNodes{1}));
  EXPECT_EQ(facts.of_processors, (NumaNodes{0}));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace larder::memory
