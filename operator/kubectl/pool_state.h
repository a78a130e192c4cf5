// PoolState: the facts about a CachePool for `kubectl larder`. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/kubectl/diagnostic.h"

namespace larder::kubectl {

struct PoolState {
  std::string ns, name, backend;  // backend: empty: none
  bool by_node = false;
  bool adds_flags = true;
  std::string ready, memory, hits;  // from the operator's status; "-": unknown
  std::int64_t pods = 0, attached = 0, engines = 0;
  Findings findings;  // failing conditions

  std::string place() const { return ns + "/" + name; }
};

// All texts of the result are printable.
PoolState pool_seen(const api::Object& pool);

// The failing conditions of a CachePool or CacheBackend. Ready is included only alone.
Findings unwell(const api::Object& object);

}  // namespace larder::kubectl
