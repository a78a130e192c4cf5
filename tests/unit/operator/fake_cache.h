// FakeCache: a Cache over FakeApi, without threads: as fresh as the API server, or as old as the
// moment of freezing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/k8s/informer.h"
#include "tests/unit/operator/fake_api.h"

namespace larder::operator_test {

class FakeCache final : public k8s::Cache {
 public:
  // `label`: "key" or "key=value" that objects must have; empty: all.
  FakeCache(const FakeApi& api, k8s::Resource resource, std::string label = "",
            std::function<void(api::Object&)> trim = nullptr)
      : api_(api),
        resource_(std::move(resource)),
        label_(std::move(label)),
        trim_(std::move(trim)) {}

  k8s::ObjectPtr find(const std::string& ns, const std::string& name) const override {
    for (const k8s::ObjectPtr& one : all(ns))
      if (api::name_of(*one) == name) return one;
    return nullptr;
  }
  std::vector<k8s::ObjectPtr> all(const std::string& ns = "") const override {
    std::vector<k8s::ObjectPtr> found;
    for (const k8s::ObjectPtr& one : frozen_ ? *frozen_ : now())
      if (ns.empty() || api::namespace_of(*one) == ns) found.push_back(one);
    return found;
  }
  bool synced() const override { return true; }
  bool await_settled(unsigned) const override { return true; }

  void freeze() { frozen_ = now(); }
  void thaw() { frozen_.reset(); }

 private:
  std::vector<k8s::ObjectPtr> now() const {
    std::vector<k8s::ObjectPtr> found;
    const std::size_t equal = label_.find('=');
    for (api::Object object : api_.all(resource_)) {
      const std::optional<std::string> value = api::label(object, label_.substr(0, equal));
      if (!label_.empty() &&
          (!value || (equal != std::string::npos && *value != label_.substr(equal + 1))))
        continue;
      if (trim_) trim_(object);
      found.push_back(std::make_shared<const api::Object>(std::move(object)));
    }
    return found;
  }

  const FakeApi& api_;
  const k8s::Resource resource_;
  const std::string label_;
  const std::function<void(api::Object&)> trim_;
  std::optional<std::vector<k8s::ObjectPtr>> frozen_;
};

}  // namespace larder::operator_test
