// The world of reconcilers over an API server in memory.
#pragma once

#include <memory>
#include <string>

#include "operator/api/names.h"
#include "operator/reconcile/context.h"
#include "operator/reconcile/pod_view.h"
#include "sidecar/base/log.h"
#include "tests/unit/operator/reconcile/child_caches.h"
#include "tests/unit/operator/reconcile/pods.h"

namespace larder::reconcile {

inline constexpr const char* kNode = R"({"placement": "Node", "memory": {"size": "1Gi"}})";

struct OperatorWorld {
  OperatorWorld()
      : children(api),
        pools(api, k8s::resources::kPools),
        backends(api, k8s::resources::kBackends),
        pods(api, k8s::resources::kPods, std::string(api::kPoolLabel), trim_pod),
        world{api,
              pools,
              backends,
              pods,
              children.caches(),
              {.image = "larder:1"},
              [this] { return now; }} {
    base::set_log_level(base::LogLevel::kError);
  }

  api::Object put(const k8s::Resource& resource, const std::string& name, const char* spec) {
    return api.as_user(resource, {{"metadata", {{"name", name}, {"namespace", "ml"}}},
                                  {"spec", api::Object::parse(spec)}});
  }
  api::Object pool(const std::string& name, const char* spec) {
    return put(k8s::resources::kPools, name, spec);
  }
  api::Object backend(const std::string& name, const char* spec) {
    return put(k8s::resources::kBackends, name, spec);
  }
  api::Object status(const k8s::Resource& resource, const std::string& name) const {
    return api::at(*api.find(resource, "ml", name), "status");
  }
  // "False NoSuchBackend".
  std::string condition(const k8s::Resource& resource, const std::string& name,
                        const std::string& type) const {
    const api::Object now_there = status(resource, name);
    for (const api::Object& one : api::at(now_there, "conditions"))
      if (api::text_at(one, "type") == type)
        return api::text_at(one, "status") + " " + api::text_at(one, "reason");
    return "(none)";
  }

  operator_test::FakeApi api;
  FakeChildren children;
  operator_test::FakeCache pools, backends, pods;
  std::string now = "2026-01-01T00:00:00Z";
  Context world;
};

}  // namespace larder::reconcile
