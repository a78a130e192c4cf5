// Cases that golden files cannot show well: sizes, and objects that are no pods.
#include <gtest/gtest.h>

#include "operator/api/names.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

TEST(Injection, MalformedPodIsUnchanged) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  for (const char* text :
       {"null", "[]", "{}", R"({"spec":{"containers":[]}})",
        R"({"metadata":[],"spec":{"containers":[{"name":"a"}]}})",
        R"({"spec":{"containers":[{"name":"a","args":[1]}]}})", R"({"spec":{"containers":["a"]}})",
        R"({"metadata":{"annotations":{"a":1}},"spec":{"containers":[{"name":"a"}]}})"}) {
    const webhook::Injection injection = one.inject(Object::parse(text));
    EXPECT_EQ(injection.patch, Object::array()) << text;
    EXPECT_NE(injection.refused.find("the pod is malformed at "), std::string::npos) << text;
  }
}

// The API server refuses an object with more than 256 KiB of annotations: the pod would not start
// at all.
TEST(Injection, NeverMakesAnnotationsTooLarge) {
  InjectionCase one = container_case("{command: [vllm, serve, m]}");
  Object& annotations = one.pod["metadata"]["annotations"];
  annotations["a"] = std::string((256u << 10) - 200, 'x');
  const webhook::Injection tight = one.inject();
  EXPECT_NE(tight.refused.find("annotations leave no room"), std::string::npos) << tight.refused;
  EXPECT_EQ(tight.patch.size(), 1u) << "the sentence itself has room";
  annotations["a"] = std::string((256u << 10) - 40, 'x');
  EXPECT_EQ(one.inject().patch, Object::array());
}

TEST(Injection, NeedsThePortsOfLarderdAndItsSupervisor) {
  for (const char* port : {"9464", "9465"}) {
    InjectionCase one = container_case(
        std::string("{command: [vllm, serve, m], ports: [{containerPort: ") + port + "}]}");
    EXPECT_NE(one.inject().refused.find(std::string("has port ") + port), std::string::npos)
        << one.inject().refused;
    one.pod["spec"]["hostNetwork"] = true;
    EXPECT_EQ(one.inject().refused, "");
  }
}

TEST(Injection, NeedsThePortOfPeersOnlyForAPoolWithPeers) {
  InjectionCase one = container_case("{command: [vllm, serve, m], ports: [{containerPort: 9466}]}");
  EXPECT_EQ(one.inject().refused, "");
  one.pool->spec.peers.emplace();
  EXPECT_NE(one.inject().refused.find("has port 9466, which larderd uses for peers"),
            std::string::npos)
      << one.inject().refused;
}

TEST(Injection, CutsALongReason) {
  InjectionCase one = container_case("{command: [other]}");
  one.pool_name = "missing";
  one.pool.reset();
  one.ns = std::string(5000, 'n');
  const webhook::Injection injection = one.inject();
  EXPECT_LT(injection.refused.size(), 1100u);
  EXPECT_TRUE(injection.refused.ends_with("..."));
}

// A script may be as long as Kubernetes allows, and is read in a short time.
TEST(Injection, VeryLongScriptIsRefusedUnread) {
  InjectionCase one = container_case("{command: [bash, -c, x]}");
  one.pool->spec.engine.container = "engine";
  one.pod["spec"]["containers"][0]["command"][2] = std::string(2u << 20, 'a');
  EXPECT_NE(one.inject().refused.find("the text is too long"), std::string::npos)
      << one.inject().refused;
}

}  // namespace
}  // namespace larder::test
