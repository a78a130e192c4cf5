#include "operator/reconcile/pod_trouble.h"

namespace larder::reconcile {

Trouble trouble_of(const PodView& pod, const Heard& heard) {
  if (pod.killed_for_memory && !pod.ready) return Trouble::kOutOfMemory;
  if (!pod.waiting.empty())
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
