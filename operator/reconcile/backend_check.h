// BackendCheck: asks the servers of a backend, from the operator's pod, whether Larder can use
// them.
//
// Asks the questions of `larderctl backend check` except for rates: the check writes and removes
// only a few small keys. Takes at most 20 s, or until the stop. Thread-safe: checks run in
// parallel.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/reconcile/backend_secrets.h"
#include "sidecar/base/clock.h"

namespace larder::reconcile {

struct BackendFinding {
  enum class Weight { kUnusable, kWarning };
  Weight weight;
  std::string id;    // "wrong-password", "noeviction"
  std::string text;  // finding and remedy, with the fields of a CacheBackend
};

struct BackendSeen {
  std::vector<BackendFinding> findings;  // in order of severity
  std::string product, version;          // "Valkey", "8.0.1"; empty here and below: unknown
  std::string role, mode;
  std::size_t servers = 0;  // servers that answered
  std::uint64_t used_bytes = 0, max_bytes = 0, ping_ns = 0;
};

class BackendCheck {
 public:
  virtual ~BackendCheck() = default;
  // `prefix`: a prefix of keys that the backend's user may use. An error: the check asked no server
  // because of the spec or a Secret. Ignore the result of a stopped check.
  virtual Result<BackendSeen> check(const api::CacheBackend& backend, const BackendSecrets& secrets,
                                    const std::string& prefix, const std::stop_token& stop) = 0;

  // `clock` outlives the check. REQUIRES: SIGPIPE is ignored.
  static std::unique_ptr<BackendCheck> make(const base::Clock& clock);
};

}  // namespace larder::reconcile
