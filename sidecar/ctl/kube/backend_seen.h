// `kubectl larder backend check NAME`: whether a CacheBackend serves, by the operator's own check and by each larderd that uses it.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "sidecar/ctl/kube/finding.h"

namespace larder::kube {

// What one larderd says of its backend.
struct BackendOfPod {
  std::string pod;
  std::string place;   // its URL; empty: its larderd has none (yet)
  std::string reason;  // why it does not serve as it should; empty: it does
};

struct BackendSeen {
  std::string ns, name, server;  // server: "Valkey 8.0.1, Standalone, 1.2Gi/16Gi, 0.4ms"; empty: the operator says nothing
  std::vector<std::string> pools;
  std::vector<BackendOfPod> pods;  // of those that answered
  Findings findings;               // the heaviest first

  // Nobody can use it.
  bool unusable() const;
};

BackendSeen backend_seen(const api::Object& backend, std::vector<std::string> pools, std::vector<BackendOfPod> pods);

std::string backend_text(const BackendSeen& backend);
std::string backend_json(const BackendSeen& backend);

}  // namespace larder::kube
