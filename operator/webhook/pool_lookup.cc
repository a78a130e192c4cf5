#include "operator/webhook/pool_lookup.h"

#include <algorithm>

namespace larder::webhook {
namespace {

// What a user wrote into an annotation comes into the path of a request: only names of objects do.
bool is_object_name(const std::string& name) {
  constexpr std::size_t kMostName = 253;
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, allowed) && name.front() != '.' &&
         name.front() != '-';
}

}  // namespace

Result<k8s::ObjectPtr> CachedPools::find(const k8s::Cache& cache, const k8s::Resource& resource, const std::string& ns,
                                         const std::string& name) {
  if (!is_object_name(name) || !is_object_name(ns)) return Status(Code::kNotFound, "no object can have this name");
  if (k8s::ObjectPtr held = cache.find(ns, name); held != nullptr) return held;
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

}  // namespace larder::webhook
