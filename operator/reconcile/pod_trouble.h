// Trouble: why larderd does not run in a pod, from a few kinds. Conditions name the kind, metrics
// count it. Pure; thread-safe.
#pragma once

#include <array>

#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

// In order of severity. `text` is the word in conditions and in the metrics' label `reason`.
enum class Trouble { kOutOfMemory, kImageNotPulled, kDoesNotRun, kNotScheduled, kStarting, kNone };

inline constexpr std::array<Trouble, 5> kTroubles{Trouble::kOutOfMemory, Trouble::kImageNotPulled,
                                                  Trouble::kDoesNotRun, Trouble::kNotScheduled,
                                                  Trouble::kStarting};

Trouble trouble_of(const PodView& pod, const Heard& heard);
const char* text(Trouble trouble);

}  // namespace larder::reconcile
