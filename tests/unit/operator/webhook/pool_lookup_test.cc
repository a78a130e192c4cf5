#include "operator/webhook/pool_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "operator/api/names.h"
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
  operator_test::FakeApi seen_;  // the objects that the informers have seen
  operator_test::FakeCache pools_{seen_, k8s::resources::kPools},
      backends_{seen_, k8s::resources::kBackends};
  operator_test::FakeApi live_;
  CachedPools lookup_{pools_, backends_, live_};
};

TEST_F(PoolLookupTest, CachedPoolNeedsNoRequest) {
  seen_.as_user(k8s::resources::kPools, pool_object("chat"));
  const Result<api::CachePool> found = lookup_.pool("ml", "chat");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->name, "chat");
  EXPECT_THAT(live_.calls(), IsEmpty());
}

TEST_F(PoolLookupTest, UncachedPoolIsReadFromTheApiServer) {
  live_.as_user(k8s::resources::kPools, pool_object("new"));
  const Result<api::CachePool> found = lookup_.pool("ml", "new");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->name, "new");
  EXPECT_EQ(lookup_.backend("ml", "none").status().code(), Code::kNotFound);
  EXPECT_THAT(live_.calls(), SizeIs(2));
}

// covers F-306
TEST_F(PoolLookupTest, ConfigMapIsReadFromTheApiServer) {
  live_.as_user(k8s::resources::kConfigMaps,
                {{"apiVersion", "v1"},
                 {"kind", "ConfigMap"},
                 {"metadata", {{"name", "engine"}, {"namespace", "ml"}}},
                 {"data", {{"A", "1"}}}});
  const Result<api::Object> found = lookup_.config_map("ml", "engine");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(api::text_at(*found, "data.A"), "1");
  EXPECT_EQ(lookup_.config_map("ml", "../pods/x").status().code(), Code::kNotFound);
  EXPECT_THAT(live_.calls(), SizeIs(1));
}

// covers F-430
TEST_F(PoolLookupTest, RuntimeClassIsReadFromTheApiServer) {
  live_.as_user(k8s::resources::kRuntimeClasses, {{"apiVersion", "node.k8s.io/v1"},
                                                  {"kind", "RuntimeClass"},
                                                  {"metadata", {{"name", "nvidia"}}},
                                                  {"handler", "nvidia"}});
  EXPECT_TRUE(lookup_.runtime_class("nvidia").ok());
  EXPECT_EQ(lookup_.runtime_class("kata").status().code(), Code::kNotFound);
  EXPECT_EQ(lookup_.runtime_class("../x").status().code(), Code::kNotFound);
  EXPECT_THAT(live_.calls(), SizeIs(2));
}

// Of two default classes the newer one counts, as in the API server.
// covers F-451
TEST_F(PoolLookupTest, StorageClassIsReadFromTheApiServer) {
  const auto put = [this](const std::string& name, const std::string& made,
                          const char* is_default) {
    live_.as_user(
        k8s::resources::kStorageClasses,
        {{"apiVersion", "storage.k8s.io/v1"},
         {"kind", "StorageClass"},
         {"metadata",
          {{"name", name},
           {"creationTimestamp", made},
           {"annotations", {{"storageclass.kubernetes.io/is-default-class", is_default}}}}},
         {"provisioner", "csi.example"}});
  };
  EXPECT_EQ(lookup_.storage_class("").status().code(), Code::kNotFound);
  put("nvme", "2026-11-03T00:00:00Z", "false");
  EXPECT_EQ(lookup_.storage_class("").status().code(), Code::kNotFound);
  EXPECT_TRUE(lookup_.storage_class("nvme").ok());
  EXPECT_EQ(lookup_.storage_class("none").status().code(), Code::kNotFound);
  EXPECT_EQ(lookup_.storage_class("../x").status().code(), Code::kNotFound);
  put("new", "2026-11-02T00:00:00Z", "true");
  put("old", "2026-11-01T00:00:00Z", "true");
  const Result<api::Object> found = lookup_.storage_class("");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(api::name_of(*found), "new");
}

TEST_F(PoolLookupTest, FailureIsReturned) {
  live_.set_failures([](const auto&) {
    return operator_test::FakeApi::Failure{Status(Code::kDeadlineExceeded, "1 s"), false};
  });
  EXPECT_EQ(lookup_.pool("ml", "chat").status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(lookup_.storage_class("").status().code(), Code::kDeadlineExceeded);
}

api::Object namespaced(const std::string& kind, const std::string& name) {
  return {
      {"apiVersion", "v1"}, {"kind", kind}, {"metadata", {{"name", name}, {"namespace", "ml"}}}};
}
api::Object namespace_object(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Namespace"},
          {"metadata",
           {{"name", name},
            {"labels",
             {{"larder.dev/pool", "chat"},
              {"other", "x"},
              {"pod-security.kubernetes.io/enforce", "baseline"}}},
            {"annotations",
             {{"openshift.io/sa.scc.uid-range", "5/5"}, {"long", std::string(1000, 'x')}}}}}};
}

// Like the API server's late answers to a new operator.
// covers F-224
TEST_F(PoolLookupTest, EarlyPodWaitsForLimitsBeingListed) {
  const base::MonotonicClock clock;
  live_.as_user(k8s::resources::kLimitRanges, namespaced("LimitRange", "l"));
  live_.as_user(k8s::resources::kQuotas, namespaced("ResourceQuota", "q"));
  live_.as_user(k8s::resources::kNamespaces, namespace_object("ml"));
  live_.set_failures([](const operator_test::FakeApi::Call& call)
                         -> std::optional<operator_test::FakeApi::Failure> {
    if (call.verb == "list") std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return std::nullopt;
  });
  const auto limits =
      k8s::Informer::start(live_, {.resource = k8s::resources::kLimitRanges}, clock);
  const auto quotas = k8s::Informer::start(live_, {.resource = k8s::resources::kQuotas}, clock);
  const auto namespaces =
      k8s::Informer::start(live_, {.resource = k8s::resources::kNamespaces}, clock);
  CachedPools lookup(pools_, backends_, live_, {namespaces.get(), limits.get(), quotas.get()});
  const Surroundings found = lookup.surroundings("ml", false);
  EXPECT_TRUE(found.ns);
  EXPECT_THAT(found.limit_ranges, SizeIs(1));
  EXPECT_THAT(found.quotas, SizeIs(1));
}

class SurroundingsTest : public PoolLookupTest {
 protected:
  operator_test::FakeCache namespaces_{seen_, k8s::resources::kNamespaces, "", trim_surroundings};
  operator_test::FakeCache limit_ranges_{seen_, k8s::resources::kLimitRanges, "",
                                         trim_surroundings};
  operator_test::FakeCache quotas_{seen_, k8s::resources::kQuotas, "", trim_surroundings};
  CachedPools lookup_{pools_, backends_, live_, {&namespaces_, &limit_ranges_, &quotas_}};
};

TEST_F(SurroundingsTest, ComeFromNamespaceAndInformers) {
  seen_.as_user(k8s::resources::kNamespaces, namespace_object("ml"));
  seen_.as_user(k8s::resources::kLimitRanges, namespaced("LimitRange", "l"));
  seen_.as_user(k8s::resources::kQuotas, namespaced("ResourceQuota", "q"));
  api::Object strange = namespaced("ResourceQuota", "other");
  strange["metadata"]["namespace"] = "other";
  seen_.as_user(k8s::resources::kQuotas, strange);
  const Surroundings found = lookup_.surroundings("ml", true);
  ASSERT_TRUE(found.ns);
  EXPECT_EQ(api::label(*found.ns, api::kPoolLabel), "chat");
  EXPECT_EQ(api::label(*found.ns, "pod-security.kubernetes.io/enforce"), "baseline");
  EXPECT_EQ(api::annotation(*found.ns, api::kUserRangeAnnotation), "5/5");
  EXPECT_FALSE(api::annotation(*found.ns, "long")) << "unread fields take no memory";
  EXPECT_THAT(found.limit_ranges, SizeIs(1));
  EXPECT_THAT(found.quotas, SizeIs(1));
  EXPECT_THAT(live_.calls(), IsEmpty());
}

// Made together with its pods; and with an operator's role older than this.
// covers F-223
TEST_F(SurroundingsTest, UncachedNamespaceIsReadWhenItDecides) {
  live_.as_user(k8s::resources::kNamespaces, namespace_object("ml"));
  EXPECT_FALSE(lookup_.surroundings("ml", false).ns);
  EXPECT_THAT(live_.calls(), IsEmpty());
  EXPECT_TRUE(lookup_.surroundings("ml", true).ns);
  live_.set_failures([](const auto&) {
    return operator_test::FakeApi::Failure{Status(Code::kPermissionDenied, "403"), false};
  });
  EXPECT_FALSE(lookup_.surroundings("ml", true).ns);
  EXPECT_FALSE(lookup_.surroundings("../x", true).ns);
}

// An annotation is a stranger's text, which becomes part of a path of the API server's.
TEST_F(PoolLookupTest, InvalidNameIsNotRequested) {
  for (const std::string name :
       {"", "../../../api/v1/secrets", "a/b", "a?b", "A", "a%2f", ".", "..", "-a", "a b"})
    EXPECT_EQ(lookup_.pool("ml", name).status().code(), Code::kNotFound) << name;
  EXPECT_EQ(lookup_.pool("ml", std::string(300, 'a')).status().code(), Code::kNotFound);
  EXPECT_EQ(lookup_.pool("../x", "chat").status().code(), Code::kNotFound);
  EXPECT_THAT(live_.calls(), IsEmpty());
}

}  // namespace
}  // namespace larder::webhook
