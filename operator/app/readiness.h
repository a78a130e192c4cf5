// Readiness: the checks behind /healthz and /readyz. A replica is ready once its webhook can judge a pod: the first lists are in and a
// certificate is served. Thread-safe.
#pragma once

#include <functional>

#include "operator/app/informers.h"
#include "operator/k8s/health.h"

namespace larder::app {

// Pools and backends are waited for without end. Namespaces, LimitRanges and ResourceQuotas are waited for until Cache::await_settled
// ends: an operator without the right to list them becomes ready, and decides without them. `certificate`: whether there is one to
// serve. `watched` and all that `certificate` refers to outlive the checks.
void add_checks(k8s::HealthChecks& health, const Informers& watched, std::function<bool()> certificate);

}  // namespace larder::app
