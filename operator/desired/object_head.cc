#include "operator/desired/object_head.h"

#include "operator/api/names.h"

namespace larder::desired {
namespace {

using api::Object;

// The reference with controller: true lets Kubernetes delete the object with its owner, and lets
// reconcile/plan.cc find it.
struct Owner {
  std::string_view kind;
  const std::string &ns, &name, &uid;
};

Object head(std::string_view api_version, std::string_view kind, const std::string& name,
            Object labels, const Owner& owner) {
  Object reference{{"apiVersion", std::string(api::kGroup) + "/" + std::string(api::kVersion)},
                   {"kind", owner.kind},
                   {"name", owner.name},
                   {"uid", owner.uid},
                   {"controller", true}};
  return Object{{"apiVersion", api_version},
                {"kind", kind},
                {"metadata",
                 {{"name", name},
                  {"namespace", owner.ns},
                  {"labels", std::move(labels)},
                  {"ownerReferences", Object::array({std::move(reference)})}}}};
}

// The labels are also the selectors of DaemonSet and StatefulSet. A selector cannot change, so the
// labels must stay as they are.
Object labels(std::string_view component, std::string_view key, const std::string& value) {
  return Object{{"app.kubernetes.io/name", "larder"},
                {"app.kubernetes.io/component", component},
                {std::string(api::kManagedByLabel), api::kFieldManager},
                {std::string(key), value}};
}

}  // namespace

Object pod_labels(const api::CachePool& pool) {
  return labels("larderd", api::kPoolLabel, pool.name);
}

Object pod_labels(const api::CacheBackend& backend) {
  return labels("backend", api::kBackendLabel, backend.name);
}

Object object_head(std::string_view api_version, std::string_view kind,
                   const api::CachePool& pool) {
  return head(api_version, kind, pool_name(pool), pod_labels(pool),
              {"CachePool", pool.ns, pool.name, pool.uid});
}

Object object_head(std::string_view api_version, std::string_view kind,
                   const api::CacheBackend& backend) {
  return head(api_version, kind, managed_name(backend), pod_labels(backend),
              {"CacheBackend", backend.ns, backend.name, backend.uid});
}

// The prefix keeps the objects apart from those of users; server_config_name() depends on it.
std::string pool_name(const api::CachePool& pool) {
  return "larder-" + pool.name;
}

}  // namespace larder::desired
