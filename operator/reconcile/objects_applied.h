// The condition ObjectsApplied of Node pools and of managed backends. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/reconcile/children.h"
#include "operator/reconcile/conditions.h"

namespace larder::reconcile {

// `kind`: "pool" or "backend". `objects`: the wanted objects, "ConfigMap and DaemonSet".
Condition objects_applied(const Brought& brought, const std::string& kind,
                          const std::string& objects);

}  // namespace larder::reconcile
