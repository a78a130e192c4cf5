// `kubectl larder backend check NAME`: whether a CacheBackend serves, by the operator's own check and by each larderd that uses it.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/kubectl/diagnostic.h"

namespace larder::kubectl {

// What one larderd says of its backend.
struct BackendOfPod {
  std::string pod;
  std::string place;     // its URL; empty: its larderd has none (yet)
  std::string reason;    // why it does not serve as it should; empty: it does
  bool serving = false;  // answers reads

  bool uses() const { return !place.empty() && (serving || reason.empty()); }
};

struct BackendState {
  std::string ns, name, server;  // server: "Valkey 8.0.1, Standalone, 1.2Gi/16Gi, 0.4ms"; empty: the operator says nothing
  std::vector<std::string> pools;
  std::vector<BackendOfPod> pods;  // of those that answered
  Findings findings;               // the heaviest first

  // Nobody can use it.
  bool unusable() const;
};

BackendState backend_seen(const api::Object& backend, std::vector<std::string> pools, std::vector<BackendOfPod> pods);

std::string backend_text(const BackendState& backend);
std::string backend_json(const BackendState& backend);

}  // namespace larder::kubectl
