// The first toucher of a page of shared memory is charged for the page: larderd, in its own limit.
// So for every pool arena < sizeLimit of the memory volume < limit of the container, and requests
// tell the scheduler the need.
#include <gtest/gtest.h>

#include <random>

#include "operator/api/names.h"
#include "shim/protocol/index_layout.h"
#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

using api::Object;

std::uint64_t bytes_at(const Object& object, const std::string& path) {
  const Result<std::uint64_t> bytes = api::quantity_bytes(api::text_at(object, path));
  EXPECT_TRUE(bytes.ok()) << path << ": " << object.dump();
  return bytes.ok() ? *bytes : 0;
}

Object volume(const test::PoolCase& one, std::string_view name) {
  for (const Object& volume : larderd_volumes(*one.pool, one.backend))
    if (volume["name"] == name) return volume;
  return {};
}

// Two indexes of the size that larderd makes for this arena: the one of an earlier life, and the
// new one beside.
std::uint64_t two_indexes(std::uint64_t arena) {
  constexpr std::uint64_t kUsualSlot = 64 << 10, kFineEntries = 1 << 18;
  const std::uint64_t entries = std::max(arena / kUsualSlot, kFineEntries);
  std::uint64_t buckets = 2;
  while (buckets * protocol::kBucketCells < 2 * entries) buckets *= 2;
  const std::uint64_t parents_bytes = entries * sizeof(std::uint32_t);
  return 2 * (protocol::index_sizes(entries, buckets).total_bytes + parents_bytes);
}

TEST(Charging, ArenaFitsTheSizeLimitAndTheContainerLimit) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t mib = 16 + random() % (1ULL << (10 + i % 14));
    const test::PoolCase one =
        test::pool_case_of("{memory: {size: " + std::to_string(mib) + "Mi}}");
    const Object container = larderd_container(*one.pool, {}, one.defaults);
    const std::uint64_t arena = mib << 20,
                        limit = bytes_at(container["resources"], "limits.memory");
    const std::uint64_t size_limit =
        bytes_at(volume(one, api::kMemoryVolume), "emptyDir.sizeLimit");
    EXPECT_GE(size_limit, arena + two_indexes(arena)) << mib;
    EXPECT_GE(limit, size_limit + (128ULL << 20)) << mib << ": no room for larderd itself";
    EXPECT_EQ(container["resources"]["requests"]["memory"],
              container["resources"]["limits"]["memory"]);
  }
}

TEST(Charging, HugePagesAreASeparateResource) {
  const test::PoolCase one = test::pool_case_of("{memory: {size: 4Gi, hugepages: 2Mi}}");
  const Object resources = larderd_container(*one.pool, {}, one.defaults)["resources"];
  EXPECT_EQ(resources["limits"]["hugepages-2Mi"], "4Gi");
  EXPECT_EQ(resources["requests"]["hugepages-2Mi"], "4Gi");
  EXPECT_LT(bytes_at(resources, "limits.memory"), 1ULL << 30);
  EXPECT_GT(bytes_at(resources, "limits.memory"),
            bytes_at(volume(one, api::kMemoryVolume), "emptyDir.sizeLimit"));
  EXPECT_EQ(volume(one, api::kHugepagesVolume)["emptyDir"]["medium"], "HugePages-2Mi");
}

TEST(Charging, ConfiguredResourcesStayAndOthersAreAdded) {
  const test::PoolCase one = test::pool_case_of(
      "{memory: {size: 1Gi}, resources: {requests: {cpu: 2}, limits: {cpu: 3, memory: 2Gi}}}");
  const Object resources = larderd_container(*one.pool, {}, one.defaults)["resources"];
  EXPECT_EQ(resources["limits"], (Object{{"cpu", 3}, {"memory", "2Gi"}}));
  EXPECT_EQ(resources["requests"], (Object{{"cpu", 2}, {"memory", "2Gi"}}));
}

TEST(Charging, EphemeralDiskIsRequestedFromTheScheduler) {
  const test::PoolCase one = test::pool_case_of("{memory: {size: 1Gi}, disk: {size: 100Gi}}");
  const Object resources = larderd_container(*one.pool, {}, one.defaults)["resources"];
  const std::uint64_t asked = bytes_at(resources, "requests.ephemeral-storage");
  EXPECT_GT(asked, 100ULL << 30);
  EXPECT_EQ(bytes_at(volume(one, api::kDiskVolume), "emptyDir.sizeLimit"), asked);
}

}  // namespace
}  // namespace larder::desired
