// The marks of an injected pod for programs that act on pods: the autoscaler, backups; and the
// marks that its pool adds.
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/webhook/inject/disks.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

constexpr const char* kMovable = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
constexpr const char* kNotBackedUp = "backup.velero.io/backup-volumes-excludes";

InjectionCase usual() {
  return container_case("{image: 'vllm/vllm-openai:v1', command: [vllm, serve, m]}");
}

Object annotations(const InjectionCase& one) {
  const webhook::Injection injection = one.inject();
  EXPECT_EQ(injection.refused, "");
  return patched(one.pod, injection.patch)["metadata"]["annotations"];
}

TEST(PodMarks, LocalLarderVolumesAreMarkedEvictable) {
  InjectionCase one = usual();
  EXPECT_EQ(annotations(one)[kMovable], "larder-run,larder-memory,larder-payload");
  EXPECT_EQ(annotations(one)[kNotBackedUp], "larder-run,larder-memory,larder-payload");
  one.pool->spec.memory.hugepages = api::Hugepages::k2Mi;
  one.pool->spec.disk = disk_of(1, api::DiskVolume::kEmptyDir);
  EXPECT_EQ(annotations(one)[kMovable],
            "larder-run,larder-memory,larder-hugepages,larder-disk,larder-payload");
  one.pool->spec.disk->volume = api::DiskVolume::kEphemeralClaim;
  EXPECT_EQ(annotations(one)[kMovable], "larder-run,larder-memory,larder-hugepages,larder-payload");
  EXPECT_EQ(annotations(one)[kNotBackedUp],
            "larder-run,larder-memory,larder-hugepages,larder-disk,larder-payload");
}

TEST(PodMarks, PlacementNodeMarksItsVolumes) {
  InjectionCase one = usual();
  one.pool->spec.placement = api::Placement::kNode;
  EXPECT_EQ(annotations(one)[kMovable], "larder-run,larder-payload");
  EXPECT_EQ(annotations(one)[kNotBackedUp], "larder-payload");
}

TEST(PodMarks, UserVolumeWithLarderPrefixIsNotMarked) {
  InjectionCase one = usual();
  one.pod["spec"]["volumes"] =
      Object::array({Object{{"name", "larder-notes"}, {"emptyDir", Object::object()}}});
  EXPECT_EQ(annotations(one)[kMovable], "larder-run,larder-memory,larder-payload");
  EXPECT_EQ(annotations(one)[kNotBackedUp], "larder-run,larder-memory,larder-payload");
}

TEST(PodMarks, ExistingListEntriesAreKept) {
  InjectionCase one = usual();
  Object& mine = one.pod["metadata"]["annotations"];
  mine[kMovable] = "scratch,larder-payload,more";
  mine["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false";
  const Object after = annotations(one);
  EXPECT_EQ(after[kMovable], "scratch,larder-payload,more,larder-run,larder-memory");
  EXPECT_EQ(after["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
}

TEST(PodMarks, PoolLabelsFillOnlyMissingOnes) {
  InjectionCase one = usual();
  one.pod["metadata"]["labels"] = {{"app", "mine"}};
  one.pool->spec.injection.labels = {{"app", "other"}, {"team", "chat"}};
  one.pool->spec.injection.annotations = {{"example.com/a", "b"}, {kMovable, "of-the-pool"}};
  const Object pod = patched(one.pod, one.inject().patch);
  EXPECT_EQ(pod["metadata"]["labels"],
            (Object{{"app", "mine"}, {"team", "chat"}, {"larder.dev/pool", "llama"}}));
  EXPECT_EQ(pod["metadata"]["annotations"]["example.com/a"], "b");
  EXPECT_EQ(pod["metadata"]["annotations"][kMovable],
            "of-the-pool,larder-run,larder-memory,larder-payload");
}

}  // namespace
}  // namespace larder::test
