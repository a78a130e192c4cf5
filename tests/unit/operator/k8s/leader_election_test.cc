#include "operator/k8s/leader_election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "sidecar/base/log_throttle.h"
#include "tests/eventually.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::k8s {
namespace {

api::Object lease_of(const std::string& holder) {
  return {{"metadata", {{"namespace", "larder"}, {"name", "larder-operator"}}},
          {"spec", {{"holderIdentity", holder}, {"leaseDurationSeconds", 12}}}};
}

// A client with the right to write Leases in the namespace takes the lease and gives it back, over
// and over.
// covers F-225
TEST(LeaderElectionTest, RewrittenLeaseDoesNotFloodTheLog) {
  operator_test::FakeApi api;
  const base::MonotonicClock monotonic;
  const base::BoottimeClock boottime;
  Metrics metrics;
  std::atomic<int> changes = 0;
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  {
    const LeaderElection election(
        api, {.ns = "larder", .name = "larder-operator", .identity = "ours", .renew_ms = 1},
        monotonic, boottime, metrics, [&](bool) { ++changes; });
    for (int i = 0; i < 50; ++i) {
      api.as_user(resources::kLeases, lease_of(""));
      EXPECT_TRUE(test::eventually([&] { return election.leads(); }, 10'000, 1));
      const int before = changes;
      api.as_user(resources::kLeases,
                  lease_of("stranger " + std::string(static_cast<std::size_t>(i % 7), 'x')));
      EXPECT_TRUE(test::eventually([&] { return changes > before; }, 10'000, 1));
    }
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::ranges::count(log, '\n'), 6) << log;
  EXPECT_NE(log.find("the lease's holder has changed"), std::string::npos) << log;
  EXPECT_NE(log.find("this replica no longer leads"), std::string::npos) << log;
}

}  // namespace
}  // namespace larder::k8s
