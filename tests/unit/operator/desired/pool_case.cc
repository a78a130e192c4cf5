#include "tests/unit/operator/desired/pool_case.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "operator/api/names.h"
#include "operator/desired/plugin.h"
#include "tests/unit/operator/api/yaml_object.h"

namespace larder::test {
namespace {

namespace fs = std::filesystem;
using api::Object;

template <typename T>
T taken(const Result<T>& result) {
  if (!result.ok()) throw std::runtime_error(result.status().text());
  return *result;
}

void add(const std::string& what, const Object& object, std::string& text) {
  text += "--- # " + what + "\n" + to_yaml(object);
}

std::optional<Object> plugin_of(const PoolCase& one) {
  return desired::plugin_container(*one.pool, one.backend, one.defaults);
}

void add_pool(const PoolCase& one, std::string& text) {
  const api::CachePool& pool = *one.pool;
  const bool node = pool.spec.placement == api::Placement::kNode;
  if (!node) {
    text += "--- # larderd's configuration\n|\n";
    std::istringstream lines(desired::larderd_config(pool, one.backend, one.engine));
    for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
    add("larderd's container",
        desired::larderd_container(pool, one.backend, one.defaults, one.engine), text);
  }
  if (const std::optional<Object> plugin = plugin_of(one); plugin && !node)
    add("plug-in's container", *plugin, text);
  add("payload's container", desired::payload_container(pool, one.defaults), text);
  add(node ? "engine's volumes" : "volumes",
      node ? desired::engine_volumes(pool) : desired::larderd_volumes(pool, one.backend), text);
  add("engine's mounts", desired::engine_mounts(pool), text);
  add("engine's pod", desired::engine_pod_security(pool), text);
  for (const Object& object : desired::pool_objects(pool, one.backend, one.defaults))
    add(object.at("kind"), object, text);
  if (!node) return;
  for (const Object& object : desired::freeing_objects(pool, one.defaults))
    add(object.at("kind").get<std::string>() + ", once the pool is deleted", object, text);
}

}  // namespace

PoolCase pool_case(const std::string& yaml) {
  PoolCase one;
  one.engine.host_network = yaml.find("# hostNetwork") != std::string::npos;
  for (Object object : from_yaml(yaml)) {
    Object& metadata = object["metadata"];
    if (!metadata.contains("namespace")) metadata["namespace"] = "chat";
    metadata["uid"] = "uid-of-" + api::name_of(object);
    const std::string kind = api::text_at(object, "kind");
    if (kind == "CachePool") one.pool = taken(api::parse_pool(object));
    if (kind == "CacheBackend") one.backend = taken(api::parse_backend(object));
  }
  return one;
}

PoolCase pool_case_of(const std::string& pool_spec, const std::string& backend_spec) {
  std::string yaml = "{kind: CachePool, metadata: {name: main}, spec: " + pool_spec + "}\n";
  if (!backend_spec.empty())
    yaml += "---\n{kind: CacheBackend, metadata: {name: shared}, spec: " + backend_spec + "}\n";
  return pool_case(yaml);
}

Object pod_of(const PoolCase& one) {
  const api::CachePool& pool = *one.pool;
  if (pool.spec.placement == api::Placement::kNode) {
    const Object set = desired::daemon_set(pool, one.backend, one.defaults);
    Object pod{{"apiVersion", "v1"},
               {"kind", "Pod"},
               {"metadata", {{"name", "node-pod"}}},
               {"spec", set["spec"]["template"]["spec"]}};
    return pod;
  }
  Object security = desired::engine_pod_security(pool);
  security.update({{"runAsNonRoot", true},
                   {"runAsUser", 1000},
                   {"seccompProfile", {{"type", "RuntimeDefault"}}}});
  const Object engine_security{{"allowPrivilegeEscalation", false},
                               {"capabilities", {{"drop", Object::array({"ALL"})}}}};
  const Object engine{{"name", "vllm"},
                      {"image", "vllm:1"},
                      {"securityContext", engine_security},
                      {"volumeMounts", desired::engine_mounts(pool)}};
  Object spec{
      {"securityContext", security},
      {"hostNetwork", one.engine.host_network},
      {"containers", Object::array({engine})},
      {"initContainers",
       Object::array({desired::payload_container(pool, one.defaults),
                      desired::larderd_container(pool, one.backend, one.defaults, one.engine)})},
      {"volumes", desired::larderd_volumes(pool, one.backend)}};
  if (std::optional<Object> plugin = plugin_of(one))
    spec["initContainers"].push_back(*std::move(plugin));
  const std::string config = desired::larderd_config(pool, one.backend, one.engine);
  const Object annotations{{std::string(api::kConfigAnnotation), config}};
  return Object{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", {{"name", "engine-pod"}, {"annotations", annotations}}},
                {"spec", std::move(spec)}};
}

std::string built(const PoolCase& one) {
  std::string text;
  if (one.pool) add_pool(one, text);
  if (one.backend && !one.pool)
    for (const Object& object : desired::backend_objects(*one.backend, one.defaults))
      add(object.at("kind"), object, text);
  return text;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  const std::string suffix = ".in.yaml";
  for (const fs::directory_entry& entry : fs::directory_iterator(GOLDEN_FOLDER))
    if (const std::string file = entry.path().filename(); file.ends_with(suffix))
      names.push_back(file.substr(0, file.size() - suffix.size()));
  std::ranges::sort(names);
  return names;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace larder::test
