// Possible counts of a larderd, for the golden screens.
#pragma once

#include <string>

#include "sidecar/ctl/snapshot.h"
#include "sidecar/stats/stats.h"

namespace larder::ctl {

stats::Stats idle_stats();
stats::Stats busy_stats();
stats::Stats stats_with_disk();
// The same larderd with a backend as well: degraded, or not.
Snapshot snapshot_with_backend(const std::string& reason = "");

// In the form that larderctl reads from larderd's answer.
Snapshot snapshot_of(const stats::Stats& stats, bool healthy = true, bool ready = true);

// Compares with golden/NAME.txt. After a wanted change: LARDER_TEST_WRITE_GOLDEN=1 and read the
// difference.
void expect_golden(const std::string& name, const std::string& screen);

}  // namespace larder::ctl
