#include "tests/component/kube/larder_definitions.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "operator/k8s/yaml_object.h"

namespace larder::kube_test {
namespace {

const k8s::Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
const k8s::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                 "CustomResourceDefinition", false};

Result<api::Object> object_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return k8s::parse_yaml(text.str());
}

bool are_served(k8s::ApiClient& client) {
  return client.list(k8s::resources::kPools, {}).ok() &&
         client.list(k8s::resources::kBackends, {}).ok();
}

}  // namespace

Status install_definitions(k8s::ApiClient& client, const std::vector<std::string>& namespaces) {
  for (const std::string& ns : namespaces)
    if (const auto made = client.create(
            kNamespaces,
            {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
        !made.ok())
      return made.status();
  for (const auto& file : std::filesystem::directory_iterator(std::string(REPOSITORY_ROOT) +
                                                              "/charts/larder/files/crds")) {
    const Result<api::Object> definition = object_in(file.path());
    if (!definition.ok()) return definition.status();
    if (const auto made = client.create(kDefinitions, *definition); !made.ok())
      return made.status();
  }
  for (int i = 0; i < 100; ++i) {
    if (are_served(client)) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return {Code::kDeadlineExceeded, "the definitions are not served"};
}

}  // namespace larder::kube_test
