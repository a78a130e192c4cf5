// PodView: of a pod with a larderd in it, or with an engine of a node's larderd, what the operator needs to know. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::reconcile {

struct PodView {
  std::string ns, name, uid, pool;
  std::string node;          // empty: none yet
  std::string ip;            // the same
  bool has_larderd = false;  // by the injector, or as the DaemonSet's pod; a Node pool's engines have none
  bool injected = false;     // by the injector: no controller of ours replaces it
  bool running = false;      // the pod is
  bool ready = false;        // larderd is, by its container's status
  bool over = false;         // succeeded, failed or being deleted: counts for nothing
  bool host_network = false;
  std::string config;        // annotation larder.dev/config
  std::string restart_hash;  // annotation larder.dev/restart-hash
  std::string notice;        // annotation larder.dev/notice
  std::string unscheduled;   // the scheduler's reason; empty: it has a node
  std::string waiting;       // larderd's container does not run, or one before it: the reason ("ErrImagePull")
  std::string waiting_text;  // and the kubelet's words, or the last ones of the one before it
  bool killed_for_memory = false;
  bool completed = false;     // larderd's container ended by itself, with status 0
  std::int64_t restarts = 0;  // of larderd
};

// Whether larderd listens at the pod's address: with hostNetwork it listens at none.
inline bool answers(const PodView& pod) {
  return pod.ready && !pod.over && !pod.ip.empty() && !pod.host_network;
}

PodView view_of(const api::Object& pod);

// Cuts from a pod what view_of() does not read: 1,000 pods cost little memory then.
void trim_pod(api::Object& pod);

}  // namespace larder::reconcile
