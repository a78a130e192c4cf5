// `kubectl larder backend check NAME`: whether a CacheBackend serves, by the operator's check and
// by each larderd with this backend. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/kubectl/diagnostic.h"

namespace larder::kubectl {

// The answer of a larderd about its backend.
struct BackendOfPod {
  std::string pod;
  std::string place;     // the URL; empty: larderd has no backend (yet)
  std::string reason;    // why the backend does not serve in full; empty: it serves
  bool serving = false;  // answers reads

  bool uses() const { return !place.empty() && (serving || reason.empty()); }
};

struct BackendState {
  std::string ns, name, server;  // server: "Valkey 8.0.1, Standalone, 1.2Gi/16Gi, 0.4ms"
  std::vector<std::string> pools;
  std::vector<BackendOfPod> pods;  // pods that answered
  Findings findings;               // in order of severity

  // No client can use the backend.
  bool unusable() const;
};

BackendState backend_seen(const api::Object& backend, std::vector<std::string> pools,
                          std::vector<BackendOfPod> pods);

std::string backend_text(const BackendState& backend);
std::string backend_json(const BackendState& backend);

}  // namespace larder::kubectl
