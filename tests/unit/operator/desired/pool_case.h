// A pool with its backend as YAML, and every object that the builders make. Throws yaml-cpp's
// exceptions: for tests alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/desired/backend_objects.h"
#include "operator/desired/pool_objects.h"

namespace larder::test {

struct PoolCase {
  std::optional<api::CachePool> pool;
  std::optional<api::CacheBackend> backend;
  desired::Defaults defaults{"larder:0.1.0",
                             true,
                             "larder-system",
                             {{api::BackendType::kMooncake, "larder-mooncake:0.1.0"},
                              {api::BackendType::kInfiniStore, "larder-infinistore:0.1.0"}}};
  desired::EnginePod engine;
};

// CachePool and CacheBackend, either may be missing; in namespace chat if the text has no
// namespace. A comment "# hostNetwork" sets hostNetwork.
PoolCase pool_case(const std::string& yaml);
// Only spec of the pool, and of the backend.
PoolCase pool_case_of(const std::string& pool_spec, const std::string& backend_spec = "");

// A pod as the injector makes one in placement Sidecar, of an engine that passes Pod Security
// restricted; the DaemonSet's pod otherwise.
api::Object pod_of(const PoolCase& one);

// All objects of the builders, as documents in a reader's order.
std::string built(const PoolCase& one);

// Names of the golden inputs, without ".in.yaml".
std::vector<std::string> golden_names();
std::string file_text(const std::string& path);

}  // namespace larder::test
