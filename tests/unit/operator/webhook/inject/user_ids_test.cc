// The user of larderd: of the namespace's range on OpenShift, and of no other container in the pod.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/webhook/inject/disks.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;
using testing::HasSubstr;

InjectionCase on_openshift(const std::string& users, const std::string& groups = "") {
  InjectionCase one = container_case("{image: 'vllm/vllm-openai:v1', command: [vllm, serve, m]}");
  Object annotations = {{"openshift.io/sa.scc.uid-range", users}};
  if (!groups.empty()) annotations["openshift.io/sa.scc.supplemental-groups"] = groups;
  one.surroundings.ns =
      std::make_shared<const Object>(Object{{"metadata", {{"annotations", annotations}}}});
  return one;
}

Object security_of(const Object& pod, std::string_view name) {
  for (const char* list : {"initContainers", "containers"})
    for (const Object& container : pod["spec"][list])
      if (container["name"] == name) return container["securityContext"];
  return {};
}

// covers F-222
TEST(UserIds, AreFromTheNamespaceRangeExceptItsFirst) {
  for (const std::string range : {"1000660000/10000", "1000660000-1000669999"}) {
    const Object pod = injected(on_openshift(range));
    for (const auto name : {api::kSidecarContainer, api::kPayloadContainer}) {
      EXPECT_EQ(security_of(pod, name)["runAsUser"], 1000669999) << range;
      EXPECT_EQ(security_of(pod, name)["runAsGroup"], 1000669999) << range;
    }
    EXPECT_EQ(pod["spec"]["securityContext"], (Object{{"supplementalGroups", {1000669999}}}));
  }
  const Object other = injected(on_openshift("1000660000/10000", "5000/100,7000/10"));
  EXPECT_EQ(other["spec"]["securityContext"]["supplementalGroups"], Object::array({5099}));
}

// OpenShift allows one fsGroup, the first of the namespace's groups; a disk of its own claim needs
// one.
TEST(UserIds, VolumeGroupIsTheFirstGroup) {
  InjectionCase one = on_openshift("1000660000/10000", "5000/100");
  one.pool->spec.disk = disk_of(1, api::DiskVolume::kEphemeralClaim);
  EXPECT_EQ(injected(one)["spec"]["securityContext"]["fsGroup"], 5000);
  one.pod["spec"]["securityContext"]["fsGroup"] = 5000;
  EXPECT_EQ(injected(one)["spec"]["securityContext"]["fsGroup"], 5000);
}

// A fault of the plug-in must open no memory of larderd: another user, in the group of the socket.
TEST(UserIds, OfAPluginIsAnother) {
  const auto with_plugin = [](InjectionCase one) {
    one.backend.emplace();
    one.backend->name = "mooncake";
    one.backend->spec.type = api::BackendType::kMooncake;
    one.backend->spec.endpoints = {"m:50051"};
    return one;
  };
  const auto ids = [&](const InjectionCase& one) {
    Object security = security_of(injected(with_plugin(one)), "larder-mooncake");
    return std::pair(security["runAsUser"], security["runAsGroup"]);
  };
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  EXPECT_EQ(ids(one), std::pair(Object(65531), Object(65532)));
  one.pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = 65531;
  EXPECT_EQ(ids(one), std::pair(Object(65530), Object(65532)));
  EXPECT_EQ(ids(on_openshift("1000660000/10000")),
            std::pair(Object(1000669998), Object(1000669999)));
  EXPECT_EQ(ids(on_openshift("1000/2")), std::pair(Object(1001), Object(1001)))
      << "the range has no other id";
  one.pool->spec.pod_security = {{"runAsUser", 7}};
  EXPECT_EQ(ids(one), std::pair(Object(7), Object(65532)));
  one.pool->spec.pod_security = {};
  one.pool->spec.injection.user_ids = api::UserIdSource::kPlatform;
  EXPECT_EQ(ids(one), std::pair(Object(), Object()));
}

TEST(UserIds, NoContainerOfThePodHasLarderds) {
  InjectionCase one = on_openshift("1000/3");
  one.pod["spec"]["securityContext"]["runAsUser"] = 1002;
  EXPECT_EQ(security_of(injected(one), api::kSidecarContainer)["runAsUser"], 1001);
  one.pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = 1001;
  EXPECT_THAT(one.inject().refused,
              HasSubstr("no user id is left for larderd, and the namespace allows 1000 to 1002"));
  EXPECT_EQ(one.inject().kind, webhook::Refusal::kNamespace);
}

TEST(UserIds, RangeOfOneLeavesNoneForLarderd) {
  EXPECT_THAT(on_openshift("1000/1").inject().refused, HasSubstr("no user id is left"));
}

// covers F-222
TEST(UserIds, PoolIdsWinInsideTheRangeAndAreRefusedOutside) {
  InjectionCase one = on_openshift("1000660000/10000");
  one.pool->spec.pod_security = {{"runAsUser", 1000660005}};
  EXPECT_EQ(security_of(injected(one), api::kSidecarContainer)["runAsUser"], 1000660005);
  one.pool->spec.pod_security["runAsUser"] = 7;
  EXPECT_THAT(one.inject().refused, HasSubstr("remove podSecurity.runAsUser of CachePool llama"));
  // A pod with a user of its own outside of the range is admitted by a rule that allows any.
  one.pod["spec"]["securityContext"]["runAsUser"] = 1000;
  EXPECT_EQ(security_of(injected(one), api::kSidecarContainer)["runAsUser"], 7);
}

// In a user namespace ids end at 65535; OpenShift's restricted-v3 takes 1000 to 65534.
// covers F-331
TEST(UserIds, AreInsideTheUserNamespaceOfThePod) {
  InjectionCase one = on_openshift("1000660000/10000");
  one.pod["spec"]["hostUsers"] = false;
  const Object pod = injected(one);
  for (const auto name : {api::kSidecarContainer, api::kPayloadContainer}) {
    EXPECT_EQ(security_of(pod, name)["runAsUser"], 65532) << name;
    EXPECT_EQ(security_of(pod, name)["runAsGroup"], 65532) << name;
  }
  EXPECT_EQ(pod["spec"]["securityContext"]["supplementalGroups"], Object::array({65532}));
  one.pod["spec"]["hostUsers"] = true;
  EXPECT_EQ(security_of(injected(one), api::kSidecarContainer)["runAsUser"], 1000669999);
}

// covers F-331
TEST(UserIds, OutsideTheUserNamespaceAreReported) {
  for (const bool node : {true, false}) {
    InjectionCase one = container_case("{command: [vllm, serve, m]}");
    one.pod["spec"]["hostUsers"] = false;
    if (node)
      one.pool->spec.placement = api::Placement::kNode;
    else
      one.pool->spec.pod_security = {{"runAsUser", 70000}};
    EXPECT_THAT(one.inject().refused, HasSubstr("hostUsers: false, whose ids end at 65535"));
    EXPECT_EQ(one.inject().kind, webhook::Refusal::kNamespace);
    one.pool->spec.pod_security = {{"runAsUser", 7000}, {"runAsGroup", 7000}};
    EXPECT_EQ(one.inject().refused, "");
  }
}

TEST(UserIds, MalformedRangeAnnotationIsIgnored) {
  for (const std::string range : {"", "1000", "a/b", "1000/", "/10", "5-1", "1000/0",
                                  "99999999999/10", "-5/10", "1000/10/10"})
    EXPECT_EQ(security_of(injected(on_openshift(range)), api::kSidecarContainer)["runAsUser"],
              api::kUser)
        << range;
}

TEST(UserIds, PlatformSourceSetsNone) {
  InjectionCase one = container_case("{image: 'vllm/vllm-openai:v1', command: [vllm, serve, m]}");
  one.pool->spec.disk = disk_of(1, api::DiskVolume::kEphemeralClaim);
  one.pool->spec.injection.user_ids = api::UserIdSource::kPlatform;
  const Object pod = injected(one);
  for (const auto name : {api::kSidecarContainer, api::kPayloadContainer}) {
    EXPECT_FALSE(security_of(pod, name).contains("runAsUser"));
    EXPECT_FALSE(security_of(pod, name).contains("runAsGroup"));
    EXPECT_EQ(security_of(pod, name)["runAsNonRoot"], true);
  }
  for (const char* key : {"fsGroup", "supplementalGroups"})
    EXPECT_FALSE(api::at(pod, "spec.securityContext").contains(key)) << key;
  one.pool->spec.pod_security = {{"runAsUser", 7}};
  EXPECT_EQ(security_of(injected(one), api::kSidecarContainer)["runAsUser"], 7);
  one.pool->spec.placement = api::Placement::kNode;
  EXPECT_EQ(injected(one)["spec"]["securityContext"]["supplementalGroups"].size(), 1U)
      << "larderd's, which is in another pod";
}

}  // namespace
}  // namespace larder::test
