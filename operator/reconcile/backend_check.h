// BackendCheck: asks a backend's servers what they are and whether Larder can use them, from where the operator runs.
//
// The same questions as `larderctl backend check`, but for measuring rates: nothing but a few small keys is written, and removed
// again. 20 s at most, or until it is told to stop. Thread-safe: several backends may be checked at once.
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
  std::string text;  // what is so and what to do, in the words of a CacheBackend
};

struct BackendSeen {
  std::vector<BackendFinding> findings;  // the heaviest first
  std::string product, version;          // "Valkey", "8.0.1"; empty here and below: not told
  std::string role, mode;
  std::size_t servers = 0;  // that answered
  std::uint64_t used_bytes = 0, max_bytes = 0, ping_ns = 0;
};

class BackendCheck {
 public:
  virtual ~BackendCheck() = default;
  // `prefix`: of keys that the user may use. An error: the servers were not asked, since the spec or a Secret is not as it must be.
  // What comes of a check that was stopped says nothing.
  virtual Result<BackendSeen> check(const api::CacheBackend& backend, const BackendSecrets& secrets, const std::string& prefix,
                                    const std::stop_token& stop) = 0;

  // `clock` outlives it. REQUIRES: SIGPIPE is ignored.
  static std::unique_ptr<BackendCheck> make(const base::Clock& clock);
};

}  // namespace larder::reconcile
