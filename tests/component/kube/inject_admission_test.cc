// Every golden pod as it comes out of the injector, given to a real API server: its schema, its validation, and Pod Security as
// strict as the namespace of the pod was before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "tests/component/kube/api_server.h"
#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"
#include "tests/unit/text_file.h"

namespace larder::test {
namespace {

using api::Object;
namespace fs = std::filesystem;

const fs::path kRoot = REPOSITORY_ROOT;
constexpr std::string_view kIn = ".in.yaml";

[[maybe_unused]] const ApiServer& started = api_server();

// As the API server shall see it: what it fills in itself goes, and what no other object is there for.
Object submitted(Object pod, const std::string& ns, const std::string& name) {
  Object& metadata = pod["metadata"];
  for (const char* key : {"generateName", "ownerReferences", "uid", "resourceVersion", "creationTimestamp"}) metadata.erase(key);
  metadata["name"] = name;
  metadata["namespace"] = ns;
  for (const char* key : {"priority", "preemptionPolicy", "runtimeClassName"}) pod["spec"].erase(key);
  for (const char* list : {"containers", "initContainers"}) {
    if (!pod["spec"].contains(list) || !pod["spec"][list].is_array()) continue;
    for (Object& container : pod["spec"][list])
      if (!container.contains("image")) container["image"] = "registry.example/any:1";
  }
  return pod;
}

struct Golden {
  std::string name;  // of the file, and of the pod here
  InjectionCase one;
  Object after;
  std::string level;  // the strictest that took it as it was
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "tests/golden/inject")) {
    const std::string file = entry.path().filename();
    if (!file.ends_with(kIn)) continue;
    const InjectionCase one = injection_case(text_of(entry.path()));
    all.push_back({file.substr(0, file.size() - kIn.size()), one, patched(one.pod, one.inject().patch), ""});
  }
  return all;
}

// What the API server says to all of them at once, in that namespace.
std::string answer_to(const Object& pods) {
  const fs::path file = fs::temp_directory_path() / ("larder-inject-" + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << Object({{"apiVersion", "v1"}, {"kind", "List"}, {"items", pods}}).dump();
  const Outcome outcome = api_server().kubectl("create --dry-run=server -f " + file.string());
  fs::remove(file);
  return outcome.text;
}

bool accepted(const std::string& answer, const std::string& name) {
  return answer.find("pod/" + name + " created (server dry run)") != std::string::npos;
}

TEST(InjectAdmission, EveryPodPassesWhatItPassedBefore) {
  if (!api_server().missing().empty()) GTEST_SKIP() << api_server().missing();
  std::vector<Golden> all = goldens();
  ASSERT_GE(all.size(), 60u);
  std::size_t restricted = 0;
  for (const std::string level : {"restricted", "baseline", "privileged"}) {
    const Outcome made = api_server().kubectl("create namespace " + level);
    ASSERT_EQ(made.status, 0) << made.text;
    const Outcome labelled = api_server().kubectl("label namespace " + level + " pod-security.kubernetes.io/enforce=" + level);
    ASSERT_EQ(labelled.status, 0) << labelled.text;
    Object before = Object::array(), after = Object::array();
    for (const Golden& golden : all)
      if (golden.level.empty()) before.push_back(submitted(golden.one.pod, level, golden.name));
    const std::string answer = answer_to(before);
    for (Golden& golden : all) {
      if (!golden.level.empty() || !accepted(answer, golden.name)) continue;
      golden.level = level;
      // Placement Node needs hostPath: its page says so.
      const bool on_node = golden.one.pool && golden.one.pool->spec.placement == api::Placement::kNode;
      if (on_node && level != "privileged") golden.level = "";
      if (!golden.level.empty()) after.push_back(submitted(golden.after, level, golden.name));
    }
    const std::string given = after.empty() ? "" : answer_to(after);
    for (const Golden& golden : all)
      EXPECT_TRUE(golden.level != level || accepted(given, golden.name)) << golden.name << " under " << level << ":\n" << given;
    if (level == "restricted") restricted = after.size();
  }
  EXPECT_EQ(std::ranges::count(all, std::string(), &Golden::level), 0) << "some are no pods themselves";
  EXPECT_GE(restricted, 2u);
  for (const Golden& golden : all)
    EXPECT_FALSE(golden.one.pod_security == "restricted" && golden.level != "restricted") << golden.name;
  std::cout << all.size() << " pods, " << restricted << " of them under restricted\n";
}

}  // namespace
}  // namespace larder::test
