// Informer: the current objects of a kind, kept by list and watch. Level-based: listeners get an
// object before and after a change, and comparison with the next list finds changes missed between.
//
// Thread-safe. Objects are shared, immutable values. An informer without permission to list holds
// no objects and asks again, at most every 30 s.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operator/k8s/api_client.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

using ObjectPtr = std::shared_ptr<const api::Object>;  // shared: outlives its update in the cache

// The read side of an informer, for reconcilers and the injector. Readers see whole lists, never a
// part of one.
class Cache {
 public:
  virtual ~Cache() = default;
  // Null: not found.
  virtual ObjectPtr find(const std::string& ns, const std::string& name) const = 0;
  // The objects of a namespace; "": of all namespaces.
  virtual std::vector<ObjectPtr> all(const std::string& ns = "") const = 0;
  virtual bool synced() const = 0;  // the first list has arrived; stays true
  // Waits at most `timeout_ms` for the first list. Also returns true if waiting is useless: the API
  // server refuses the list (403), or Informer::kMostWaitMs have passed since the start. False: the
  // list may still arrive.
  virtual bool await_settled(unsigned timeout_ms) const = 0;
};

struct Informing {
  Resource resource;
  Selector selector = {};
  // Removes unread fields of each object, so that 1,000 pods cost little memory. The informer
  // always removes managedFields.
  std::function<void(api::Object&)> trim = {};
  // Called on the informer's thread with an object before and after a change; one may be null. Must
  // be quick.
  std::function<void(const ObjectPtr& before, const ObjectPtr& after)> changed = {};
  // The effect of a failed list, for the log: "pods are fitted without LimitRanges". Empty: the
  // operator cannot work without the objects.
  std::string without = {};
};

// Starts a thread. `client` and `clock` outlive it.
class Informer : public Cache {
 public:
  static constexpr std::uint64_t kMostWaitMs = 10'000;

  static std::unique_ptr<Informer> start(ApiClient& client, Informing informing,
                                         const base::Clock& clock);
  // Waits for the first list; false: `timeout_ms` have passed.
  virtual bool await_sync(unsigned timeout_ms) = 0;
};

}  // namespace larder::k8s
