#include "tests/unit/operator/webhook/inject/injection_case.h"

#include <stdexcept>

#include "operator/api/names.h"
#include "operator/webhook/inject/config_maps.h"
#include "tests/unit/operator/api/yaml_object.h"

namespace larder::test {
namespace {

using api::Object;

template <typename T>
T parsed(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().text());
  return std::move(*result);
}

void take(const Object& document, InjectionCase& one) {
  const std::string kind = api::text_at(document, "kind");
  if (kind == "CachePool") {
    one.pool = parsed(api::parse_pool(document));
  } else if (kind == "CacheBackend") {
    one.backend = parsed(api::parse_backend(document));
  } else if (kind == "Namespace") {
    one.ns = api::name_of(document);
    one.pod_security =
        api::label(document, "pod-security.kubernetes.io/enforce").value_or(one.pod_security);
    one.surroundings.ns = std::make_shared<const Object>(document);
  } else if (kind == "LimitRange") {
    one.surroundings.limit_ranges.push_back(std::make_shared<const Object>(document));
  } else if (kind == "ResourceQuota") {
    one.surroundings.quotas.push_back(std::make_shared<const Object>(document));
  } else if (kind == "RuntimeClass") {
    one.classes.runtime = document;
  } else if (kind == "StorageClass") {
    one.classes.storage = document;
  } else if (kind == "ConfigMap") {
    one.config_maps[api::name_of(document)] = document;
  } else if (kind == "Defaults") {
    one.defaults.native_sidecars = api::truth_at(document, "nativeSidecars", true);
    if (document.contains("pullSecrets"))
      for (const Object& secret : document["pullSecrets"])
        one.defaults.pull_secrets.push_back(secret);
  } else {
    one.pod = document;
  }
}

}  // namespace

// Like PodReview.
webhook::Injection InjectionCase::inject(const Object& one) const {
  const Object read = webhook::with_config_maps(one, [this](const std::string& name) {
    const auto found = config_maps.find(name);
    return found == config_maps.end() ? Object() : found->second;
  });
  return webhook::inject(
      {read, ns, pool_name, pool, backend, defaults, by_pod, surroundings, classes});
}

InjectionCase injection_case(const std::string& yaml) {
  InjectionCase one;
  for (const Object& document : from_yaml(yaml)) take(document, one);
  const std::optional<webhook::PoolRequest> request =
      webhook::pool_request_of(one.pod, one.surroundings.ns);
  one.pool_name = request ? request->pool : "llama";
  one.by_pod = !request || request->by_pod;
  if (!one.pool && one.pool_name != "missing") take(from_yaml(kUsualPool).front(), one);
  if (one.pool) one.pool->name = one.pool_name;
  return one;
}

InjectionCase container_case(const std::string& container) {
  InjectionCase one = injection_case(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: engine}\nspec: {containers: [{name: "
      "engine}]}\n");
  one.pod["spec"]["containers"][0].update(from_yaml(container).front());
  return one;
}

InjectionCase vllm_case(const std::string& resources) {
  return container_case(
      "{image: 'vllm/vllm-openai:v1', command: [vllm, serve, m], resources: " + resources + "}");
}

std::string refusal(const std::string& container, const std::string& metadata) {
  InjectionCase one = container_case(container);
  one.pod["metadata"].merge_patch(from_yaml(metadata).front());
  return one.inject().refused;
}

Object patched(const Object& pod, const Object& patch) {
  return pod.patch(patch);
}

Object injected(const InjectionCase& one) {
  const webhook::Injection injection = one.inject();
  if (!injection.refused.empty()) throw std::runtime_error(injection.refused);
  return patched(one.pod, injection.patch);
}

}  // namespace larder::test
