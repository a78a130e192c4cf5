// The review of server_process: of one pool for every pod. A caller in its own process knows the
// right answer of the server.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"
#include "operator/webhook/review.h"

namespace larder::component_test {

class OnePool final : public webhook::PoolLookup {
 public:
  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override {
    return api::parse_pool(
        {{"apiVersion", "larder.dev/v1alpha1"},
         {"kind", "CachePool"},
         {"metadata",
          {{"name", name}, {"namespace", ns}, {"uid", "6f1c8e6e-0000-4000-8000-000000000001"}}},
         {"spec", {{"memory", {{"size", "4Gi"}}}}}});
  }
  Result<api::CacheBackend> backend(const std::string&, const std::string&) override {
    return Status(Code::kNotFound, "none");
  }
};

// `pools` outlives the review. Thread-safe.
inline webhook::PodReview review_of_one_pool(OnePool& pools) {
  return {pools, {"registry.example/larder:0.1.0", true}, webhook::inject, [](const auto&...) {}};
}

}  // namespace larder::component_test
