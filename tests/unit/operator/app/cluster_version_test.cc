#include "operator/app/cluster_version.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/operator/fake_api.h"

namespace larder::app {
namespace {

constexpr std::chrono::milliseconds kAtOnce{1};

class ClusterVersionTest : public testing::Test {
 protected:
  std::optional<bool> asked() { return await_native_sidecars(api_, stop_.get_token(), kAtOnce); }
  void is(const char* major, const char* minor) {
    api_.set_path("/version", {{"major", major}, {"minor", minor}});
  }
  // The first `times` questions end so.
  void fail(int times, Code code) {
    const auto left = std::make_shared<int>(times);
    api_.set_failures([left, code](const operator_test::FakeApi::Call&)
                          -> std::optional<operator_test::FakeApi::Failure> {
      if ((*left)-- <= 0) return {};
      return operator_test::FakeApi::Failure{Status(code, "made up")};
    });
  }

  operator_test::FakeApi api_;
  std::stop_source stop_;
};

TEST_F(ClusterVersionTest, NativeSidecarsAreUsedFrom129) {
  for (const auto& [minor, known] :
       {std::pair{"28", false}, {"28+", false}, {"29", true}, {"34", true}}) {
    is("1", minor);
    EXPECT_EQ(asked(), known) << minor;
  }
  is("2", "0");
  EXPECT_EQ(asked(), true);
}

// An operator that starts during the API server's start would else inject for another Kubernetes
// all its life.
// covers F-234
TEST_F(ClusterVersionTest, UnansweredVersionRequestIsRetried) {
  is("1", "28");
  for (const Code code :
       {Code::kUnavailable, Code::kDeadlineExceeded, Code::kResourceExhausted, Code::kInternal}) {
    fail(3, code);
    EXPECT_EQ(asked(), false) << code_name(code);
  }
}

TEST_F(ClusterVersionTest, ServerRefusingTheVersionIsAssumedNew) {
  fail(1, Code::kPermissionDenied);
  EXPECT_EQ(asked(), true);
  api_.set_path("/version", {{"name", "a proxy"}});
  fail(0, Code::kOk);
  EXPECT_EQ(asked(), true);
}

TEST_F(ClusterVersionTest, StopRequestEndsTheWait) {
  fail(1'000'000, Code::kUnavailable);
  stop_.request_stop();
  EXPECT_EQ(asked(), std::nullopt);
}

}  // namespace
}  // namespace larder::app
