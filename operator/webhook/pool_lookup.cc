#include "operator/webhook/pool_lookup.h"

#include <algorithm>

#include "operator/api/names.h"
#include "operator/webhook/inject/cluster_classes.h"
#include "operator/webhook/inject/pod_security.h"

namespace larder::webhook {
namespace {

// The text of an annotation becomes part of a request's path, so it must be the name of an object.
bool is_object_name(const std::string& name) {
  constexpr std::size_t kMostName = 253;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, allowed) &&
         name.front() != '.' && name.front() != '-';
}

}  // namespace

// The informer first: a review costs no request in most cases. A miss asks the API server, since
// users often create pool and pod in one apply.
Result<k8s::ObjectPtr> CachedPools::find(const k8s::Cache& cache, const k8s::Resource& resource,
                                         const std::string& ns, const std::string& name) {
  if (!is_object_name(name) || (resource.namespaced && !is_object_name(ns)))
    return Status(Code::kNotFound, "no object can have this name");
  if (k8s::ObjectPtr held = cache.find(ns, name); held != nullptr) return held;
  // The quick client has a short deadline: the API server waits for this review.
  Result<api::Object> live = live_.get(resource, ns, name);
  if (!live.ok()) return live.status();
  return k8s::ObjectPtr(std::make_shared<const api::Object>(*std::move(live)));
}

Result<api::CachePool> CachedPools::pool(const std::string& ns, const std::string& name) {
  const Result<k8s::ObjectPtr> found = find(pools_, k8s::resources::kPools, ns, name);
  return found.ok() ? api::parse_pool(**found) : found.status();
}

Result<api::CacheBackend> CachedPools::backend(const std::string& ns, const std::string& name) {
  const Result<k8s::ObjectPtr> found = find(backends_, k8s::resources::kBackends, ns, name);
  return found.ok() ? api::parse_backend(**found) : found.status();
}

Result<api::Object> CachedPools::config_map(const std::string& ns, const std::string& name) {
  if (!is_object_name(name) || !is_object_name(ns))
    return Status(Code::kNotFound, "no object can have this name");
  return live_.get(k8s::resources::kConfigMaps, ns, name);
}

// The API server refuses a pod with a name that no class can have, so such a class is absent.
Result<api::Object> CachedPools::runtime_class(const std::string& name) {
  if (!is_object_name(name)) return Status(Code::kNotFound, "no object can have this name");
  return live_.get(k8s::resources::kRuntimeClasses, "", name);
}

// A cluster has few StorageClasses, so the default one is found in a list of all.
Result<api::Object> CachedPools::storage_class(const std::string& name) {
  if (!name.empty() && !is_object_name(name))
    return Status(Code::kNotFound, "no object can have this name");
  if (!name.empty()) return live_.get(k8s::resources::kStorageClasses, "", name);
  Result<k8s::List> all = live_.list(k8s::resources::kStorageClasses, {});
  if (!all.ok()) return all.status();
  const auto is_other = [](const api::Object& one) { return !is_default_class(one); };
  std::erase_if(all->items, is_other);
  if (all->items.empty()) return Status(Code::kNotFound, "no default StorageClass");
  const auto time_of = [](const api::Object& one) {
    return api::text_at(one, "metadata.creationTimestamp");
  };
  return *std::ranges::max_element(all->items, {}, time_of);
}

// Annotations of namespaces may be long (kubectl's last-applied), and a large cluster has thousands
// of namespaces.
void trim_surroundings(api::Object& object) {
  api::Object metadata = api::Object::object();
  for (const char* key : {"name", "namespace"})
    if (const api::Object& value = api::at(object, std::string("metadata.") + key);
        value.is_string())
      metadata[key] = value;
  for (const std::string_view key : {api::kUserRangeAnnotation, api::kGroupRangesAnnotation})
    if (const auto value = api::annotation(object, key))
      metadata["annotations"][std::string(key)] = *value;
  for (const std::string_view key : {api::kPoolLabel, kPodSecurityLabel})
    if (const auto value = api::label(object, key)) metadata["labels"][std::string(key)] = *value;
  api::Object kept = {{"metadata", std::move(metadata)}};
  // spec of LimitRange, spec and status of ResourceQuota: the injector computes with both.
  for (const char* key : {"spec", "status"})
    if (const api::Object& value = api::child(object, key); value.is_object()) kept[key] = value;
  object = std::move(kept);
}

// Right after the operator's start, a pod waits briefly for the lists of limits.
void CachedPools::await_first_lists() const {
  constexpr unsigned kAwaitMs = 250;  // for each list
  for (const k8s::Cache* cache :
       {namespaces_.namespaces, namespaces_.limit_ranges, namespaces_.quotas})
    if (cache != nullptr) cache->await_settled(kAwaitMs);
}

// Unknown facts are absent, and the injector then fits the pod without them (F-223).
Surroundings CachedPools::surroundings(const std::string& ns, bool decides) {
  Surroundings found;
  if (!is_object_name(ns)) return found;
  await_first_lists();
  if (const k8s::Cache* namespaces = namespaces_.namespaces; namespaces != nullptr) {
    found.ns = namespaces->find("", ns);
    // Only for a request by the namespace's label, and only for a namespace that the informer does
    // not know yet.
    if (found.ns == nullptr && decides)
      if (Result<k8s::ObjectPtr> live = find(*namespaces, k8s::resources::kNamespaces, "", ns);
          live.ok())
        found.ns = *std::move(live);
  }
  if (namespaces_.limit_ranges != nullptr) found.limit_ranges = namespaces_.limit_ranges->all(ns);
  if (namespaces_.quotas != nullptr) found.quotas = namespaces_.quotas->all(ns);
  return found;
}

}  // namespace larder::webhook
