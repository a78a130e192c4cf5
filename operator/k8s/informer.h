// Informer: what a kind of object is now, kept by list and watch; level-based: whoever listens is told a name, never an event.
//
// Thread-safe. Objects are handed out as shared, immutable values. What it may not list it asks for again, at most every 30 s, and holds
// nothing of until then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operator/k8s/api_client.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

using ObjectPtr = std::shared_ptr<const api::Object>;  // shared: readers keep what they read while the cache moves on

// Reads from a cache of objects; what reconcilers and the injector see.
class Cache {
 public:
  virtual ~Cache() = default;
  virtual ObjectPtr find(const std::string& ns, const std::string& name) const = 0;  // nothing: there is none
  virtual std::vector<ObjectPtr> all(const std::string& ns = "") const = 0;          // of one namespace, or of all
  virtual bool synced() const = 0;                                                   // the first list is in
  // Waits at most `timeout_ms` until the first list is in, or cannot be waited for: the API server refuses it (403), or
  // Informer::kMostWaitMs have passed since the start. False: it may still come.
  virtual bool await_settled(unsigned timeout_ms) const = 0;
};

struct Informing {
  Resource resource;
  Selector selector = {};
  // Cuts from each object what nobody reads (managedFields always goes), so that 1,000 pods cost little memory.
  std::function<void(api::Object&)> trim = {};
  // Called on the informer's thread with what changed: before and after (one may be nothing). Quick.
  std::function<void(const ObjectPtr& before, const ObjectPtr& after)> changed = {};
  // The effect of a list that fails, for the log: "pods are fitted without LimitRanges". Empty: the objects are indispensable.
  std::string without = {};
};

// Starts a thread. `client` and `clock` outlive it.
class Informer : public Cache {
 public:
  static constexpr std::uint64_t kMostWaitMs = 10'000;

  static std::unique_ptr<Informer> start(ApiClient& client, Informing informing, const base::Clock& clock);
  // Until the first list is in; false: not within `timeout_ms`.
  virtual bool await_sync(unsigned timeout_ms) = 0;
};

}  // namespace larder::k8s
