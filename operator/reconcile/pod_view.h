// PodView: the operator's view of a pod with a larderd, or of an engine's pod of placement Node.
// Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::reconcile {

struct PodView {
  std::string ns, name, uid, pool;
  std::string node;          // empty: not scheduled
  std::string ip;            // empty: no address yet
  bool has_larderd = false;  // injected or of the DaemonSet; false for engines of Node pools
  bool injected = false;     // by the injector: no controller of Larder replaces the pod
  bool running = false;      // the pod runs
  bool ready = false;        // larderd's container is ready
  bool over = false;         // succeeded, failed or under deletion; not counted
  bool host_network = false;
  api::Object labels;        // of a pod with guarded ports (api::kPeersLabel, a plug-in's label)
  std::string config;        // annotation larder.dev/config
  std::string restart_hash;  // annotation larder.dev/restart-hash
  std::string notice;        // annotation larder.dev/notice
  std::string unscheduled;   // the scheduler's reason; empty: the pod has a node
  std::string waiting;       // why a container of Larder waits ("ErrImagePull")
  std::string waiting_container;  // the container that waits
  std::string waiting_text;  // message of the kubelet, or the last message of the earlier container
  bool killed_for_memory = false;
  bool completed = false;     // larderd's container ended with status 0
  std::int64_t restarts = 0;  // of larderd's container
};

// Whether larderd listens at the pod's address, which excludes pods with hostNetwork.
inline bool answers(const PodView& pod) {
  return pod.ready && !pod.over && !pod.ip.empty() && !pod.host_network;
}

PodView view_of(const api::Object& pod);

// Removes fields that view_of() does not read, so that 1,000 pods cost little memory.
void trim_pod(api::Object& pod);

}  // namespace larder::reconcile
