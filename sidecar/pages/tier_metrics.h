// The metrics of the tiers. Pure; thread-safe.
#pragma once

#include "sidecar/pages/metric_families.h"
#include "sidecar/stats/stats.h"

namespace larder::pages {

void add_tiers(Families& out,
               const stats::Stats& stats);  // size and contents of each tier, with memory
void add_below(Families& out, const stats::Stats& stats);    // work and speed of the lower tiers
void add_fetches(Families& out, const stats::Stats& stats);  // fetches of engines from lower tiers

}  // namespace larder::pages
