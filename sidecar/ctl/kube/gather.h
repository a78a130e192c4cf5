// Gathers from the cluster what a pod is judged by. What the user may not read is left out and said, not an error. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "sidecar/ctl/kube/cluster.h"
#include "sidecar/ctl/kube/hit_findings.h"
#include "sidecar/ctl/kube/injection_findings.h"
#include "sidecar/ctl/kube/pool_seen.h"

namespace larder::kube {

InjectionFacts gather_injection(const Cluster& cluster, const PodSeen& pod);

// The pods of one or many pools, their larderds asked, and which belongs to which. What it hands out points into it.
class Fleet {
 public:
  // At most `most` larderds are asked, that which serves `first` before the others, these in the order of names; of the rest nothing
  // is known.
  Fleet(const Cluster& cluster, std::vector<PodSeen> pods, std::size_t most, const PodSeen* first = nullptr);

  const std::vector<PodSeen>& pods() const { return pods_; }
  std::size_t not_asked() const { return not_asked_; }

  // The pod whose larderd serves `pod`; null: none.
  const PodSeen* larderd_of(const PodSeen& pod) const;
  // What that says; null where nothing is known, and why: kOutOfRange where only the bound kept it from being asked.
  const ctl::Snapshot* answer_of(const PodSeen& larderd, Status* why = nullptr) const;
  // `pool`: null where it could not be read.
  HitFacts facts_of(const PodSeen& pod, const PoolSeen* pool) const;

 private:
  std::vector<PodSeen> pods_;
  std::map<std::string, Result<ctl::Snapshot>> answers_;  // by uid
  std::size_t not_asked_ = 0;
};

// Its pool's name: what was injected, or what was asked for.
std::string pool_of(const PodSeen& pod);

}  // namespace larder::kube
