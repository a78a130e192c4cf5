// A pool's status from the facts: pods, memory, hit ratio, conditions. Pure; thread-safe.
//
// Figures are rounded (memory to 1% of its size, the ratio to 1%), so that a status that says nothing new is not written again. Its
// size does not grow with the pods.
#pragma once

#include <map>
#include <string>

#include "operator/reconcile/pod_trouble.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

// What the pool's pods add up to; for the status and for metrics.
struct PoolSums {
  std::uint64_t pods = 0;                     // with a larderd
  std::uint64_t attached = 0;                 // of them: whose larderd is ready
  std::uint64_t need_restart = 0;             // of them
  std::map<Trouble, std::uint64_t> troubled;  // of them: those in which larderd does not run, by why
  std::uint64_t answered = 0;                 // whose larderd answered
  std::uint64_t engines = 0;                  // attached to those
  std::uint64_t memory_used_bytes = 0, memory_size_bytes = 0;
  std::uint64_t disk_used_bytes = 0, disk_size_bytes = 0;
  std::uint64_t requests = 0, requests_hit = 0, tokens_asked = 0, tokens_hit = 0;
};

PoolSums sums_of(const PoolFacts& facts);

// status of the CachePool. `before`: the object as it stands; `now`: RFC 3339, for conditions that change.
api::Object pool_status(const PoolFacts& facts, const api::Object& before, const std::string& now);

// "1.25Gi": three digits at most.
std::string size_text(std::uint64_t bytes);

}  // namespace larder::reconcile
