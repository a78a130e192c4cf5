#include "operator/webhook/pool_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/operator/fake_api.h"
#include "tests/unit/operator/fake_cache.h"

namespace larder::webhook {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

api::Object pool_object(const std::string& name) {
  return {{"apiVersion", "larder.dev/v1alpha1"},
          {"kind", "CachePool"},
          {"metadata", {{"name", name}, {"namespace", "ml"}}},
          {"spec", {{"memory", {{"size", "4Gi"}}}}}};
}

class PoolLookupTest : public testing::Test {
 protected:
  operator_test::FakeApi seen_;  // what the informers have seen
  operator_test::FakeCache pools_{seen_, k8s::resources::kPools}, backends_{seen_, k8s::resources::kBackends};
  operator_test::FakeApi live_;
  CachedPools lookup_{pools_, backends_, live_};
};

TEST_F(PoolLookupTest, WhatTheInformerHoldsIsAskedOfNobody) {
  seen_.as_user(k8s::resources::kPools, pool_object("chat"));
  const Result<api::CachePool> found = lookup_.pool("ml", "chat");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->name, "chat");
  EXPECT_THAT(live_.calls(), IsEmpty());
}

TEST_F(PoolLookupTest, APoolThatTheInformerHasNotSeenYetIsServed) {
  live_.as_user(k8s::resources::kPools, pool_object("new"));
  const Result<api::CachePool> found = lookup_.pool("ml", "new");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->name, "new");
  EXPECT_EQ(lookup_.backend("ml", "none").status().code(), Code::kNotFound);
  EXPECT_THAT(live_.calls(), SizeIs(2));
}

TEST_F(PoolLookupTest, WhatFailsIsSaid) {
  live_.set_failures([](const auto&) { return operator_test::FakeApi::Failure{Status(Code::kDeadlineExceeded, "1 s"), false}; });
  EXPECT_EQ(lookup_.pool("ml", "chat").status().code(), Code::kDeadlineExceeded);
}

// An annotation is a stranger's text; a path of the API server's is made of it.
TEST_F(PoolLookupTest, WhatIsNoNameIsAskedOfNobody) {
  for (const std::string name : {"", "../../../api/v1/secrets", "a/b", "a?b", "A", "a%2f", ".", "..", "-a", "a b"})
    EXPECT_EQ(lookup_.pool("ml", name).status().code(), Code::kNotFound) << name;
  EXPECT_EQ(lookup_.pool("ml", std::string(300, 'a')).status().code(), Code::kNotFound);
  EXPECT_EQ(lookup_.pool("../x", "chat").status().code(), Code::kNotFound);
  EXPECT_THAT(live_.calls(), IsEmpty());
}

}  // namespace
}  // namespace larder::webhook
