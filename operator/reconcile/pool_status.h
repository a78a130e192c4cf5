// A pool's status from the facts: pods, memory, hit ratio, conditions. Pure; thread-safe.
//
// Figures are rounded (memory to 1% of its size, the ratio to 1%), so that small changes cause no
// write. The size of the status does not grow with the number of pods.
#pragma once

#include <map>
#include <string>

#include "operator/reconcile/pod_trouble.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

// Sums over the pods of a pool, for status and metrics.
struct PoolSums {
  std::uint64_t pods = 0;                     // pods with a larderd
  std::uint64_t attached = 0;                 // pods with a ready larderd
  std::uint64_t need_restart = 0;             // pods that need a restart
  std::map<Trouble, std::uint64_t> troubled;  // pods in which larderd does not run, by reason
  std::uint64_t answered = 0;                 // pods whose larderd answered
  std::uint64_t engines = 0;                  // engines attached to answering larderds
  std::uint64_t memory_used_bytes = 0, memory_size_bytes = 0;
  std::uint64_t disk_used_bytes = 0, disk_size_bytes = 0;
  // Of larderd with peers: their number, the most known, the fewest reached, and the sum served.
  std::uint64_t with_peers = 0, peers_known = 0, peers_reachable = 0, peers_served_bytes = 0;
  std::uint64_t requests = 0, requests_hit = 0, tokens_asked = 0, tokens_hit = 0;
};

PoolSums sums_of(const PoolFacts& facts);

// status of the CachePool. `before`: the current object. `now`: RFC 3339, for changed conditions.
api::Object pool_status(const PoolFacts& facts, const api::Object& before, const std::string& now);

// At most three digits: "1.25Gi".
std::string size_text(std::uint64_t bytes);

}  // namespace larder::reconcile
