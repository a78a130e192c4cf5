// Stats as Prometheus metrics. Pure; thread-safe.
//
// Every family exists from the start, at zero, so that a rate() sees the first increase. Labels are
// bounded: served model names (at most kMaxModels and "other") and constant lists. Namespaces and
// sessions stand in /v1/status only.
#pragma once

#include <string>

#include "sidecar/http/endpoint.h"
#include "sidecar/stats/stats.h"

namespace larder::pages {

// The text exposition format.
std::string metrics_text(const stats::Stats& stats, bool ready, const http::Counters& http);

// larderd's part of docs/reference/metrics.md.
std::string metrics_reference();

}  // namespace larder::pages
