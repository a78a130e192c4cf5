#include "operator/app/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/eventually.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::app {
namespace {

using operator_test::FakeApi;
using testing::HasSubstr;

class ReadinessTest : public testing::Test {
 protected:
  // Every list of this kind fails so until the fault is mended.
  void fail(const k8s::Resource& resource, const Status& status) {
    api_.set_failures([plural = resource.plural,
                       status](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
      if (call.plural != plural) return std::nullopt;
      return FakeApi::Failure{status};
    });
  }
  void start() {
    watched_ = std::make_unique<Informers>(api_, clock_);
    add_checks(health_, *watched_, [this] { return certificate_; });
  }
  std::string readyz() const { return health_.page("/readyz").body; }
  bool soon_ready() const {
    return test::eventually([this] { return health_.page("/readyz").status == 200; });
  }

  FakeApi api_;
  const base::MonotonicClock clock_;
  bool certificate_ = true;
  k8s::HealthChecks health_;
  std::unique_ptr<Informers> watched_;
};

TEST_F(ReadinessTest, ReplicaIsReadyAfterItsFirstLists) {
  start();
  EXPECT_TRUE(soon_ready()) << readyz();
  certificate_ = false;
  EXPECT_THAT(readyz(), HasSubstr("[-]certificate failed"));
  EXPECT_EQ(health_.page("/healthz").status, 200);
}

// A pod that is reviewed now would be fitted without these.
// covers F-224
TEST_F(ReadinessTest, ReplicaIsNotReadyBeforeAllListsForPods) {
  for (const k8s::Resource* resource :
       {&k8s::resources::kPools, &k8s::resources::kBackends, &k8s::resources::kNamespaces,
        &k8s::resources::kLimitRanges, &k8s::resources::kQuotas}) {
    fail(*resource, Status(Code::kUnavailable, "503"));
    start();
    EXPECT_TRUE(test::eventually([&] {
      const std::string page = readyz();
      return page.find("[-]" + resource->plural + " failed") != std::string::npos &&
             page.find("[-]", page.find("[-]") + 1) == std::string::npos;
    })) << resource->plural
        << ": " << readyz();
    api_.set_failures({});
    EXPECT_TRUE(soon_ready()) << resource->plural << ": " << readyz();
  }
}

// The chart was not upgraded with the operator.
// covers F-223
TEST_F(ReadinessTest, OlderRoleDoesNotBlockReviews) {
  for (const k8s::Resource* resource :
       {&k8s::resources::kNamespaces, &k8s::resources::kLimitRanges, &k8s::resources::kQuotas}) {
    fail(*resource, Status(Code::kPermissionDenied, "403"));
    start();
    EXPECT_TRUE(soon_ready()) << resource->plural << ": " << readyz();
  }
}

}  // namespace
}  // namespace larder::app
