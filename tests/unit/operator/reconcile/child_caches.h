// The caches of all owned kinds over a FakeApi, like those of the operator's informers.
#pragma once

#include <memory>
#include <vector>

#include "operator/reconcile/children.h"
#include "operator/reconcile/isolation.h"
#include "tests/unit/operator/fake_cache.h"

namespace larder::reconcile {

class FakeChildren {
 public:
  explicit FakeChildren(const operator_test::FakeApi& api) {
    // As app/leader_components.cc follows them.
    for (const k8s::Resource& resource : owned_kinds()) {
      const bool all = resource == k8s::resources::kNetworkPolicies;
      caches_.push_back(std::make_unique<operator_test::FakeCache>(
          api, resource, all ? "" : "app.kubernetes.io/managed-by=larder-operator",
          all ? trim_policy : nullptr));
    }
  }
  ChildCaches caches() const {
    ChildCaches all;
    for (std::size_t i = 0; i < caches_.size(); ++i)
      all[owned_kinds()[i].plural] = caches_[i].get();
    return all;
  }
  void freeze() {
    for (const auto& cache : caches_) cache->freeze();
  }
  void thaw() {
    for (const auto& cache : caches_) cache->thaw();
  }

 private:
  std::vector<std::unique_ptr<operator_test::FakeCache>> caches_;
};

}  // namespace larder::reconcile
