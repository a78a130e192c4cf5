#include "operator/desired/image_name.h"

#include <gtest/gtest.h>

#include "tests/unit/operator/desired/pool_case.h"

namespace larder::desired {
namespace {

using api::Object;

constexpr const char* kMirror = "mirror.example:5000/hub";

TEST(ImageName, IsUnchangedWithoutARegistry) {
  for (const char* image :
       {"docker.io/valkey/valkey:8.1", "valkey/valkey:8.1", "larder", "a:5000/b@sha256:0"})
    for (const Named named : {Named::kByUs, Named::kByUser})
      EXPECT_EQ(in_registry(image, "", named), image);
}

TEST(ImageName, RegistryReplacesTheHostOfLarderImages) {
  EXPECT_EQ(in_registry("docker.io/valkey/valkey:8.1", kMirror, Named::kByUs),
            "mirror.example:5000/hub/valkey/valkey:8.1");
  EXPECT_EQ(in_registry("docker.io/library/redis:7.2", "m", Named::kByUs), "m/library/redis:7.2");
}

TEST(ImageName, UserGivenHostIsKept) {
  for (const char* image :
       {"registry.example/a/b:1", "localhost/larder:1", "r:5000/larder", "10.0.0.1/x@sha256:0"})
    EXPECT_EQ(in_registry(image, kMirror, Named::kByUser), image);
  EXPECT_EQ(in_registry("valkey/valkey:8.1", kMirror, Named::kByUser),
            "mirror.example:5000/hub/valkey/valkey:8.1");
  EXPECT_EQ(in_registry("larder:1", kMirror, Named::kByUser), "mirror.example:5000/hub/larder:1")
      << "a tag is no port";
}

// Every image in an object of ours, whichever program makes the pod.
std::vector<std::string> images_of(test::PoolCase one) {
  one.defaults.image_registry = kMirror;
  std::vector<std::string> images;
  const auto take = [&images](const Object& pod) {
    for (const char* list : {"spec.initContainers", "spec.containers"})
      for (const Object& container : api::at(pod, list))
        if (api::text_at(container, "name") != "vllm")
          images.push_back(api::text_at(container, "image"));
  };
  if (one.pool) take(test::pod_of(one));
  if (one.backend && !one.pool)
    take(api::at(stateful_set(*one.backend, one.defaults), "spec.template"));
  return images;
}

TEST(ImageName, EveryLarderImageHasAHost) {
  for (const char* engine : {"redis", "valkey"}) {
    const std::string spec =
        std::string(
            "{kind: CacheBackend, metadata: {name: m}, spec: {managed: {memory: 1Gi, engine: ") +
        engine;
    test::PoolCase one = test::pool_case(spec + "}}}");
    const Object set = stateful_set(*one.backend, one.defaults);
    EXPECT_TRUE(api::text_at(set["spec"]["template"]["spec"]["containers"][0], "image")
                    .starts_with("docker.io/"))
        << engine;
    for (const std::string& image : images_of(test::pool_case(spec + "}}}")))
      EXPECT_TRUE(image.starts_with(kMirror)) << image;
    EXPECT_EQ(images_of(test::pool_case(spec + ", image: own.example/x:1}}}")),
              std::vector<std::string>{"own.example/x:1"});
  }
  for (const char* placement : {"Sidecar", "Node"}) {
    const std::string spec =
        std::string("{placement: ") + placement + ", memory: {size: 1Gi}, image: ";
    const std::vector<std::string> images =
        images_of(test::pool_case_of(spec + "'team/larder:2'}"));
    EXPECT_EQ(images.size(), 2U);
    for (const std::string& image : images)
      EXPECT_EQ(image, std::string(kMirror) + "/team/larder:2");
    for (const std::string& image : images_of(test::pool_case_of(spec + "'own.example/larder:2'}")))
      EXPECT_EQ(image, "own.example/larder:2");
  }
}

}  // namespace
}  // namespace larder::desired
