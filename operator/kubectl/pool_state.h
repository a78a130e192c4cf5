// PoolState: of a CachePool, what `kubectl larder` shows and judges by. Pure; thread-safe.
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
  std::string ready, memory, hits;  // as the operator's status has them; "-": not said
  std::int64_t pods = 0, attached = 0, engines = 0;
  Findings findings;  // of its conditions: those that are not well

  std::string place() const { return ns + "/" + name; }
};

// Texts in it are printable.
PoolState pool_seen(const api::Object& pool);

// The conditions of any of our kinds that are not well; Ready only where no other one is.
Findings unwell(const api::Object& object);

}  // namespace larder::kubectl
