#include "operator/reconcile/pool_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::reconcile {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PoolMetricsTest, PodsWithoutRunningLarderdAreCountedByReason) {
  k8s::Metrics metrics;
  PoolMetrics pools(metrics);
  PoolSums sums;
  sums.pods = 3;
  sums.troubled = {{Trouble::kImageNotPulled, 2}};
  pools.tell({"ml", "chat"}, sums, false);
  EXPECT_THAT(metrics.text(), HasSubstr("larder_pool_pods{namespace=\"ml\",pool=\"chat\"} 3"));
  EXPECT_THAT(
      metrics.text(),
      HasSubstr(
          "larder_pool_pods_failing{namespace=\"ml\",pool=\"chat\",reason=\"ImageNotPulled\"} 2"));
  EXPECT_THAT(
      metrics.text(),
      HasSubstr(
          "larder_pool_pods_failing{namespace=\"ml\",pool=\"chat\",reason=\"OutOfMemory\"} 0"));
  sums.troubled.clear();
  pools.tell({"ml", "chat"}, sums, true);
  EXPECT_THAT(metrics.text(), HasSubstr("reason=\"ImageNotPulled\"} 0"));
}

TEST(PoolMetricsTest, DeletedPoolHasNoSeries) {
  k8s::Metrics metrics;
  PoolMetrics pools(metrics);
  pools.tell({"ml", "chat"}, PoolSums{}, true);
  pools.tell({"ml", "other"}, PoolSums{}, true);
  pools.tell({"ml", "chat"}, std::nullopt, false);
  EXPECT_THAT(metrics.text(), Not(HasSubstr("pool=\"chat\"")));
  EXPECT_THAT(metrics.text(), HasSubstr("pool=\"other\""));
  pools.forget_all();
  EXPECT_THAT(metrics.text(), Not(HasSubstr("{namespace")));
}

}  // namespace
}  // namespace larder::reconcile
