// What larderd exports of its tiers. Pure; thread-safe.
#pragma once

#include "sidecar/pages/metric_families.h"
#include "sidecar/stats/stats.h"

namespace larder::pages {

void add_tiers(Families& out, const stats::Stats& stats);    // what each holds, the memory among them
void add_below(Families& out, const stats::Stats& stats);    // what those below the memory do, and how fast
void add_fetches(Families& out, const stats::Stats& stats);  // what engines had brought up from them

}  // namespace larder::pages
