// Trouble: what keeps larderd from running in a pod, as one of a few kinds: conditions word it, metrics count it. Pure; thread-safe.
#pragma once

#include <array>

#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

// The worst first; `text` is the word of conditions and of the metrics' label `reason`.
enum class Trouble { kOutOfMemory, kImageNotPulled, kDoesNotRun, kNotScheduled, kStarting, kNone };

inline constexpr std::array<Trouble, 5> kTroubles{Trouble::kOutOfMemory, Trouble::kImageNotPulled, Trouble::kDoesNotRun,
                                                  Trouble::kNotScheduled, Trouble::kStarting};

Trouble trouble_of(const PodView& pod, const Heard& heard);
const char* text(Trouble trouble);

}  // namespace larder::reconcile
