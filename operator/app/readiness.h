// Readiness: the checks behind /healthz and /readyz. A replica is ready when its webhook can judge
// a pod: the first lists have arrived, and a certificate is served. Thread-safe.
#pragma once

#include <functional>

#include "operator/app/informers.h"
#include "operator/k8s/health.h"

namespace larder::app {

// Readiness requires pools and backends. For Namespaces, LimitRanges and ResourceQuotas the check
// waits until Cache::await_settled() ends: an operator without permission to list them becomes
// ready and decides without them. `certificate` returns whether the webhook has a certificate to
// serve. `informers` and the objects behind `certificate` outlive the checks.
void add_checks(k8s::HealthChecks& health, const Informers& informers,
                std::function<bool()> certificate);

}  // namespace larder::app
