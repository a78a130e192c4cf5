// The metrics of what larderd serves to peers and of the peers it asks. Pure.
#pragma once

#include "sidecar/pages/metric_families.h"
#include "sidecar/stats/stats.h"

namespace larder::pages {

void add_peers(Families& out, const stats::Stats& stats);

}  // namespace larder::pages
