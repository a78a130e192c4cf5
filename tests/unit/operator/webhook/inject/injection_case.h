// One injection in a test's form: a YAML text of a Pod, and beside it the unusual objects: a
// CachePool, a CacheBackend, a Namespace (whose label sets Pod Security), LimitRanges,
// ResourceQuotas, a RuntimeClass, a StorageClass, ConfigMaps that the operator can read,
// `kind: Defaults`.
#pragma once

#include <map>
#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::test {

struct InjectionCase {
  api::Object pod;
  std::string ns = "models";
  std::string pod_security = "privileged";  // pod-security.kubernetes.io/enforce of the namespace
  std::string pool_name;
  std::optional<api::CachePool> pool;
  std::optional<api::CacheBackend> backend;
  desired::Defaults defaults{
      "registry.example/larder:0.1.0",
      true,
      "",
      {{api::BackendType::kMooncake, "registry.example/larder-mooncake:0.1.0"},
       {api::BackendType::kInfiniStore, "registry.example/larder-infinistore:0.1.0"}}};
  bool by_pod = true;
  webhook::Surroundings surroundings;
  std::map<std::string, api::Object> config_maps;  // by name
  webhook::Classes classes;

  // The original pod, or the pod after a test's change.
  webhook::Injection inject() const { return inject(pod); }
  webhook::Injection inject(const api::Object& one) const;
};

// For a text without a pool and a pod with a pool other than "missing": the pool of usual_pool().
InjectionCase injection_case(const std::string& yaml);
// A pod of this engine container (YAML of its fields but the name), all else as usual.
InjectionCase container_case(const std::string& container);
// A pod of one vLLM with these resources.
InjectionCase vllm_case(
    const std::string& resources = "{requests: {cpu: 8, memory: 64Gi}, limits: {memory: 64Gi}}");

inline constexpr const char* kUsualPool = R"(
apiVersion: larder.dev/v1alpha1
kind: CachePool
metadata: {name: llama, namespace: models, uid: 6f1c8e6e-0000-4000-8000-000000000001}
spec: {memory: {size: 4Gi}}
)";

// The injector's reason against a pod of this engine container; "": the pod gets the cache.
// `metadata`: a patch of the pod's metadata in YAML.
std::string refusal(const std::string& container, const std::string& metadata = "{}");

// `pod` with a patch of RFC 6902 applied, by a library that is not ours.
api::Object patched(const api::Object& pod, const api::Object& patch);
// The pod with the cache. Throws the reason if the injector refuses the pod.
api::Object injected(const InjectionCase& one);

}  // namespace larder::test
