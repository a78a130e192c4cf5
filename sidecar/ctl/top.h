// One screen of `larderctl top`: what happens now, as differences of two snapshots, beside what was counted in all. Pure;
// thread-safe.
#pragma once

#include <optional>
#include <string>

#include "sidecar/ctl/snapshot.h"

namespace larder::ctl {

// `before` is the snapshot before this one; without it, or when larderd was restarted in between, there are no rates yet.
std::string top_screen(const Snapshot& now, const std::optional<Snapshot>& before);

// How long lies between two snapshots of one life of larderd, by its own clock. nullopt: nothing to compare.
std::optional<double> seconds_between(const Snapshot& now, const std::optional<Snapshot>& before);
// While none answers: the reason, and what was known last, if anything.
std::string waiting_screen(const std::string& why, const std::optional<Snapshot>& last);

}  // namespace larder::ctl
