// One screen of `larderctl top`: current rates, as differences of two snapshots, beside total
// counts. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "sidecar/ctl/snapshot.h"

namespace larder::ctl {

// `before`: the previous snapshot. Rates are missing without it, and after a restart of larderd in
// between.
std::string top_screen(const Snapshot& now, const std::optional<Snapshot>& before);

// The seconds between two snapshots of one run of larderd, by the clock of larderd. nullopt: the
// snapshots cannot be compared.
std::optional<double> seconds_between(const Snapshot& now, const std::optional<Snapshot>& before);
// The screen while no larderd answers: the reason, and the last known state, if any.
std::string waiting_screen(const std::string& why, const std::optional<Snapshot>& last);

}  // namespace larder::ctl
