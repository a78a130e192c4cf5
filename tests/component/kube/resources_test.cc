// The definitions of CachePool and CacheBackend, the samples and the objects built from golden
// pools, given to a real API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "tests/component/kube/api_server.h"
#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

namespace fs = std::filesystem;
using api::Object;
using testing::HasSubstr;

const std::string kRoot = REPOSITORY_ROOT;
const std::string kGolden = kRoot + "/tests/unit/operator/desired/golden";

[[maybe_unused]] const ApiServer& started = api_server();

std::vector<fs::path> files_in(const std::string& folder, const std::string& suffix) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(suffix)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string of_kind(const std::string& kind, const std::string& name, const Object& spec) {
  return Object{{"apiVersion", "larder.dev/v1alpha1"},
                {"kind", kind},
                {"metadata", {{"name", name}}},
                {"spec", spec}}
      .dump();
}

class ResourcesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!api_server().missing().empty()) GTEST_SKIP() << api_server().missing();
    const Outcome outcome =
        api_server().kubectl("apply --server-side -f " + kRoot + "/charts/larder/files/crds");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    const Outcome ready = api_server().kubectl(
        "wait --for=condition=Established --timeout=120s crd/cachepools.larder.dev "
        "crd/cachebackends.larder.dev");
    ASSERT_EQ(ready.status, 0) << ready.text;
    // Discovery follows a moment later.
    for (int tries = 0;
         tries < 600 && api_server().kubectl("get cachepools,cachebackends").status != 0; ++tries)
      ::usleep(100'000);
    for (const char* level : {"restricted", "privileged"}) {
      api_server().kubectl("create namespace " + std::string(level));
      const std::string label = " pod-security.kubernetes.io/";
      api_server().kubectl("label --overwrite namespace " + std::string(level) + label +
                           "enforce=" + level + label + "warn=" + level);
    }
  }

  static void expect_refused(const std::string& kind, const std::string& table) {
    const Object all = from_yaml(text_of(kRoot + "/tests/component/kube/refused/" + table)).at(0);
    ASSERT_GT(all.size(), 20U);
    for (const Object& one : all) {
      const std::string name = one.contains("name") ? one["name"].get<std::string>() : "bad";
      const Outcome outcome =
          api_server().kubectl("create --dry-run=server", of_kind(kind, name, one["spec"]));
      EXPECT_NE(outcome.status, 0) << one.dump();
      EXPECT_THAT(outcome.text, HasSubstr(one["words"].get<std::string>())) << one.dump();
    }
  }
};

TEST_F(ResourcesTest, EverySampleIsAccepted) {
  const std::vector<fs::path> samples = files_in(kRoot + "/manifests/samples", ".yaml");
  ASSERT_GE(samples.size(), 8U);
  for (const fs::path& sample : samples) {
    const Outcome outcome =
        api_server().kubectl("create --dry-run=server --validate=strict -f " + sample.string());
    EXPECT_EQ(outcome.status, 0) << sample << ": " << outcome.text;
  }
}

// And the parser reads of each the form that the server took.
TEST_F(ResourcesTest, SizesAreKubernetesQuantities) {
  const Object all = from_yaml(text_of(kRoot + "/tests/component/kube/accepted.yaml")).at(0);
  ASSERT_GT(all.size(), 20U);
  for (const Object& one : all) {
    const std::string kind = one["kind"];
    const Outcome outcome = api_server().kubectl(
        "create --dry-run=server --validate=strict -o json", of_kind(kind, "good", one["spec"]));
    ASSERT_EQ(outcome.status, 0) << one.dump() << outcome.text;
    const Object taken = api::parse_json(outcome.text).value();
    const Status parsed =
        kind == "CachePool" ? api::parse_pool(taken).status() : api::parse_backend(taken).status();
    EXPECT_TRUE(parsed.ok()) << one.dump() << parsed.to_string();
  }
}

TEST_F(ResourcesTest, InvalidPoolIsRefusedWithRemedy) {
  expect_refused("CachePool", "pools.yaml");
}

TEST_F(ResourcesTest, InvalidBackendIsRefusedWithRemedy) {
  expect_refused("CacheBackend", "backends.yaml");
}

TEST_F(ResourcesTest, ImmutableFieldChangeIsRefused) {
  int count = 0;
  const Object changes =
      from_yaml(text_of(kRoot + "/tests/component/kube/refused/changes.yaml")).at(0);
  for (const Object& one : changes) {
    const std::string kind = one["kind"], name = "changes-" + std::to_string(++count);
    const Outcome made = api_server().kubectl("apply", of_kind(kind, name, one["spec"]));
    ASSERT_EQ(made.status, 0) << made.text;
    const std::string patch = Object{{"spec", one["change"]}}.dump();
    const Outcome outcome =
        api_server().kubectl("patch " + kind + " " + name + " --type=merge -p '" + patch + "'");
    EXPECT_NE(outcome.status, 0) << one.dump();
    EXPECT_THAT(outcome.text, HasSubstr(one["words"].get<std::string>()));
    api_server().kubectl("delete " + kind + " " + name);
  }
  EXPECT_GE(count, 4);
}

TEST_F(ResourcesTest, DefaultsAreFilledInAndStatusIsASubresource) {
  ASSERT_EQ(api_server().kubectl("apply -f " + kRoot + "/manifests/samples/pool.yaml").status, 0);
  const Outcome spec = api_server().kubectl(
      "get cpool chat -o jsonpath='{.spec.placement} {.spec.memory.hugepages} {.spec.transfer}'");
  EXPECT_EQ(spec.text, "Sidecar none shim");
  const std::string when = "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"";
  const Outcome patched = api_server().kubectl(
      "patch cpool chat --subresource=status --type=merge -p "
      "'{\"status\":{\"observedGeneration\":1,\"pods\":{\"attached\":2},"
      "\"memory\":{\"text\":\"1Gi/"
      "16Gi\"},\"hitRatio\":\"85%\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\","
      "\"reason\":"
      "\"AllWell\",\"message\":\"\"," +
      when + "}]}}'");
  ASSERT_EQ(patched.status, 0) << patched.text;
  const Outcome shown = api_server().kubectl("get cachepools");
  EXPECT_THAT(shown.text, testing::ContainsRegex("NAME +PODS +MEMORY +HITS +BACKEND +READY +AGE"));
  EXPECT_THAT(shown.text, testing::ContainsRegex("chat +2 +1Gi/16Gi +85% +True "));
  EXPECT_THAT(api_server().kubectl("get larder").text, HasSubstr("chat")) << "the category";
}

TEST_F(ResourcesTest, ExplainDescribesEveryField) {
  const std::string pool = api_server().kubectl("explain cachepool.spec --recursive").text;
  for (const char* field : {"placement", "hugepages", "chunkTokens", "updateStrategy",
                            "podSecurity", "enum: Sidecar, Node"})
    EXPECT_THAT(pool, HasSubstr(field));
  EXPECT_THAT(api_server().kubectl("explain cachepool.spec.memory.size").text,
              HasSubstr("Memory for chunks in each larderd: 8Gi"));
  EXPECT_THAT(api_server().kubectl("explain cachebackend.spec.managed.memory").text,
              HasSubstr("maxmemory"));
}

// In placement Sidecar also under the strictest Pod Security.
TEST_F(ResourcesTest, PodsOfEveryGoldenPoolAreAdmitted) {
  const std::vector<fs::path> pods = files_in(kGolden, ".pod.yaml");
  ASSERT_GE(pods.size(), 10U);
  int restricted = 0;
  for (const fs::path& file : pods) {
    Object pod = from_yaml(text_of(file)).at(0);
    const bool host =
        pod.dump().find("hostPath") != std::string::npos || api::truth_at(pod, "spec.hostNetwork");
    const std::string ns = host ? "privileged" : "restricted";
    pod["metadata"]["namespace"] = ns;
    // no such class is here
    for (const char* absent : {"runtimeClassName", "priorityClassName"}) pod["spec"].erase(absent);
    if (pod.dump().find("\"claims\"") != std::string::npos)
      pod["spec"]["resourceClaims"] =
          Object::array({Object{{"name", "gpu"}, {"resourceClaimName", "gpu"}}});
    const Outcome outcome = api_server().kubectl("create --dry-run=server", pod.dump());
    EXPECT_EQ(outcome.status, 0) << file << ": " << outcome.text;
    if (host) {
      pod["metadata"]["namespace"] = "restricted";
      EXPECT_THAT(api_server().kubectl("create --dry-run=server", pod.dump()).text,
                  HasSubstr("violates PodSecurity"))
          << file;
    }
    restricted += ns == "restricted" ? 1 : 0;
  }
  EXPECT_GE(restricted, 8);
}

TEST_F(ResourcesTest, ObjectsOfEveryGoldenAreAccepted) {
  int objects = 0;
  for (const fs::path& file : files_in(kGolden, ".out.yaml"))
    for (Object object : from_yaml(text_of(file))) {
      if (!object.is_object() || !object.contains("apiVersion")) continue;
      const bool node = file.filename().string().starts_with("node");
      object["metadata"]["namespace"] =
          // whose API server warns of violations of Pod Security
          node ? "privileged" : "restricted";
      const Outcome outcome =
          api_server().kubectl("create --dry-run=server --validate=strict", object.dump());
      EXPECT_EQ(outcome.status, 0) << file << ": " << outcome.text;
      EXPECT_THAT(outcome.text, testing::Not(HasSubstr("Warning"))) << file;
      ++objects;
    }
  EXPECT_GE(objects, 14);
}

}  // namespace
}  // namespace larder::test
