// Gathers from the cluster what a pod is judged by. What the user may not read is left out and said, not an error. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "operator/kubectl/cluster.h"
#include "operator/kubectl/hit_diagnostics.h"
#include "operator/kubectl/injection_diagnostics.h"
#include "operator/kubectl/pool_state.h"

namespace larder::kubectl {

InjectionFacts gather_injection(const Cluster& cluster, const PodState& pod);

// The pods of one or many pools, their larderds asked, and which belongs to which. What it hands out points into it.
class Fleet {
 public:
  // At most `most` larderds are asked, that which serves `first` before the others, these in the order of names; of the rest nothing
  // is known.
  Fleet(const Cluster& cluster, std::vector<PodState> pods, std::size_t most, const PodState* first = nullptr);

  const std::vector<PodState>& pods() const { return pods_; }
  std::size_t not_asked() const { return not_asked_; }

  // The pod whose larderd serves `pod`; null: none.
  const PodState* larderd_of(const PodState& pod) const;
  // What that says; null where nothing is known, and why: kOutOfRange where only the bound kept it from being asked.
  const ctl::Snapshot* answer_of(const PodState& larderd, Status* why = nullptr) const;
  // `pool`: null where it could not be read.
  HitFacts facts_of(const PodState& pod, const PoolState* pool) const;

 private:
  std::vector<PodState> pods_;
  std::map<std::string, Result<ctl::Snapshot>> answers_;  // by uid
  std::size_t not_asked_ = 0;
};

// Its pool's name: what was injected, or what was asked for.
std::string pool_of(const PodState& pod);

}  // namespace larder::kubectl
