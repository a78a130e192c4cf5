#include "operator/reconcile/pod_trouble.h"

namespace larder::reconcile {

// The order is that of certainty: the kubelet's own reason comes before the supervisor's, and a
// scheduler's message before a start in progress.
Trouble trouble_of(const PodView& pod, const Heard& heard) {
  // A container that runs again after a kill for memory is ready, and its past is no trouble.
  if (pod.killed_for_memory && !pod.ready) return Trouble::kOutOfMemory;
  if (!pod.waiting.empty())
    // ErrImagePull, ImagePullBackOff, InvalidImageName and the like: all have the word.
    return pod.waiting.find("Image") != std::string::npos ? Trouble::kImageNotPulled
                                                          : Trouble::kDoesNotRun;
  if (const auto down = heard.down.find(pod.uid); down != heard.down.end())
    return down->second.out_of_memory ? Trouble::kOutOfMemory : Trouble::kDoesNotRun;
  if (!pod.unscheduled.empty()) return Trouble::kNotScheduled;
  return pod.ready ? Trouble::kNone : Trouble::kStarting;
}

const char* text(Trouble trouble) {
  switch (trouble) {
    case Trouble::kOutOfMemory: return "OutOfMemory";
    case Trouble::kImageNotPulled: return "ImageNotPulled";
    case Trouble::kDoesNotRun: return "DoesNotRun";
    case Trouble::kNotScheduled: return "NotScheduled";
    case Trouble::kStarting: return "Starting";
    case Trouble::kNone: break;
  }
  return "None";
}

}  // namespace larder::reconcile
