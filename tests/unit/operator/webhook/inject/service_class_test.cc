// Resources of the added containers that follow from the pod's, as the kubelet judges them.
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "operator/desired/quantity.h"
#include "operator/webhook/inject/resource_sums.h"
#include "tests/unit/operator/webhook/inject/disks.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

Object resources_of(const Object& pod, std::string_view name) {
  for (const Object& container : pod["spec"]["initContainers"])
    if (container["name"] == name) return container["resources"];
  return {};
}

webhook::Amount storage_limit(const Object& pod) {
  return webhook::pod_amount(pod, "limits", "ephemeral-storage");
}

// The kubelet gives exclusive CPUs to containers with a whole number of CPUs, and may refuse an odd
// number.
// covers F-453
TEST(Guaranteed, AddedContainersTakeNoExclusiveCpus) {
  InjectionCase one = vllm_case("{limits: {cpu: 8, memory: 64Gi}}");
  const Object pod = injected(one);
  for (const auto name : {api::kSidecarContainer, api::kPayloadContainer}) {
    const Object resources = resources_of(pod, name);
    EXPECT_EQ(resources["requests"]["cpu"], resources["limits"]["cpu"]);
    EXPECT_NE(*webhook::amount_of(resources["limits"]["cpu"]) % 1000, 0U) << resources;
  }
  one.pool->spec.resources = {{"limits", {{"cpu", "2"}}}};
  EXPECT_EQ(resources_of(injected(one), api::kSidecarContainer)["requests"]["cpu"], "2");
}

// The kubelet evicts a pod that uses more than its containers' limits together, if at least one
// container has a limit. All emptyDirs on the node's disk count.
std::uint64_t volumes_of(const Object& pod) {
  std::uint64_t milli = 0;
  for (const Object& volume : pod["spec"]["volumes"])
    if (volume.contains("emptyDir") && !volume["emptyDir"].contains("medium"))
      milli += webhook::amount_of(volume["emptyDir"]["sizeLimit"]).value_or(0);
  return milli;
}

// covers F-452
TEST(EphemeralStorage, LarderdBringsALimitForAllThatComesWithIt) {
  InjectionCase one = vllm_case("{limits: {ephemeral-storage: 10Gi}}");
  for (const bool disk : {false, true}) {
    if (disk) one.pool->spec.disk = disk_of(100, api::DiskVolume::kEmptyDir);
    const Object pod = injected(one);
    const std::uint64_t before = *storage_limit(one.pod), after = *storage_limit(pod);
    EXPECT_GT(after - before, volumes_of(pod));
    EXPECT_LT(after - before, volumes_of(pod) + (1000ULL << 30)) << "less than 1 GiB more";
  }
  one.pool->spec.disk->volume = api::DiskVolume::kEphemeralClaim;
  EXPECT_LT(*storage_limit(injected(one)), 11000ULL << 30) << "a claim is no ephemeral storage";
}

TEST(EphemeralStorage, LimitOfThePoolStaysInAPodWithALimit) {
  InjectionCase one = vllm_case("{limits: {ephemeral-storage: 10Gi}}");
  one.pool->spec.resources = {{"limits", {{"ephemeral-storage", "2Gi"}}}};
  EXPECT_EQ(resources_of(injected(one), api::kSidecarContainer)["limits"]["ephemeral-storage"],
            "2Gi");
  one.pool->spec.resources = {{"requests", {{"ephemeral-storage", "3Gi"}}}};
  EXPECT_EQ(resources_of(injected(one), api::kSidecarContainer)["limits"]["ephemeral-storage"],
            "3Gi")
      << "not below the request";
}

// The engine's downloads would count against a limit that was meant for larderd.
// covers F-452
TEST(EphemeralStorage, LimitOfThePoolIsARequestInAPodWithoutALimit) {
  InjectionCase one = vllm_case("{}");
  one.pool->spec.resources = {{"limits", {{"ephemeral-storage", "2Gi"}}}};
  one.pool->spec.injection.payload_resources = {{"requests", {{"ephemeral-storage", "1Mi"}}},
                                                {"limits", {{"ephemeral-storage", "1Gi"}}}};
  const Object pod = injected(one);
  EXPECT_FALSE(storage_limit(pod));
  EXPECT_EQ(resources_of(pod, api::kSidecarContainer)["requests"]["ephemeral-storage"], "2Gi");
  EXPECT_EQ(resources_of(pod, api::kPayloadContainer)["requests"]["ephemeral-storage"], "1Mi");
}

}  // namespace
}  // namespace larder::test
