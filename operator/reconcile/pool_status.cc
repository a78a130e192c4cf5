#include "operator/reconcile/pool_status.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "operator/reconcile/pool_conditions.h"

namespace larder::reconcile {
namespace {

using api::Object;

// Rounds down to a hundredth of the whole: with exact bytes each answer of a larderd would cost a
// write of the status, and an event in every watch.
std::uint64_t rounded(std::uint64_t used, std::uint64_t size) {
  const std::uint64_t step = std::max<std::uint64_t>(size / 100, 1);
  return used / step * step;
}

// Rounds down to two digits, so that the status changes rarely.
std::uint64_t two_digits(std::uint64_t number) {
  std::uint64_t unit = 1;
  while (number / unit >= 100) unit *= 10;
  return number / unit * unit;
}

void add_peers(const LarderdAnswer::Peers& peers, PoolSums& sums) {
  sums.peers_known = std::max(sums.peers_known, peers.known);
  sums.peers_reachable =
      sums.with_peers == 0 ? peers.reachable : std::min(sums.peers_reachable, peers.reachable);
  sums.peers_served_bytes += peers.served_bytes;
  ++sums.with_peers;
}

}  // namespace

// Three digits, as in "7.81Gi", so a column stays narrow.
std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  // From 999.5 on "%.3g" would round to "1e+03".
  for (; number >= 999.5 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g%s", number, kUnits[unit]);
  return text;
}

// Sums over living pods: a pod that goes takes its counts along. Prometheus's own counters are in
// larderd.
PoolSums sums_of(const PoolFacts& facts) {
  PoolSums sums;
  sums.pods = facts.pods.size();
  for (const PodView& engine : facts.engines)
    sums.need_restart += needs_restart(facts, engine) ? 1 : 0;
  for (const PodView& pod : facts.pods) {
    // The container stays ready while the supervisor restarts larderd: only the supervisor's answer
    // tells.
    sums.attached += pod.ready && !facts.heard.down.contains(pod.uid) ? 1 : 0;
    if (const Trouble trouble = trouble_of(pod, facts.heard); trouble != Trouble::kNone)
      ++sums.troubled[trouble];
    sums.need_restart += needs_restart(facts, pod) ? 1 : 0;
    const auto answer = facts.heard.answers.find(pod.uid);
    if (answer == facts.heard.answers.end()) continue;
    const LarderdAnswer& larderd = answer->second;
    ++sums.answered;
    sums.engines += larderd.engines;
    sums.memory_used_bytes += larderd.used_bytes;
    sums.memory_size_bytes += larderd.capacity_bytes;
    sums.disk_used_bytes += larderd.disk_used_bytes;
    sums.disk_size_bytes += larderd.disk_capacity_bytes;
    sums.requests += larderd.requests;
    sums.requests_hit += larderd.requests_hit;
    sums.tokens_asked += larderd.tokens_asked;
    sums.tokens_hit += larderd.tokens_hit;
    if (larderd.peers) add_peers(*larderd.peers, sums);
  }
  return sums;
}

Object pool_status(const PoolFacts& facts, const Object& before, const std::string& now) {
  const PoolSums sums = sums_of(facts);
  Object status = {
      {"observedGeneration", facts.generation},
      {"pods",
       {{"total", sums.pods}, {"attached", sums.attached}, {"needRestart", sums.need_restart}}},
      {"engines", sums.engines}};
  // Without an answer the fields are missing and not zero: a pool that could not be asked is not
  // empty.
  if (sums.answered > 0) {
    const std::string used = size_text(rounded(sums.memory_used_bytes, sums.memory_size_bytes));
    status["memory"] = {{"used", used}, {"size", size_text(sums.memory_size_bytes)}};
    status["memory"]["text"] = used + "/" + size_text(sums.memory_size_bytes);
    if (sums.disk_size_bytes > 0)
      status["disk"] = {{"used", size_text(rounded(sums.disk_used_bytes, sums.disk_size_bytes))},
                        {"size", size_text(sums.disk_size_bytes)}};
  }
  if (sums.with_peers > 0)
    status["peers"] = {{"known", sums.peers_known},
                       {"reachable", sums.peers_reachable},
                       {"servedBytes", two_digits(sums.peers_served_bytes)}};
  if (sums.tokens_asked > 0)
    // Whole percent, so the status rarely changes.
    status["hitRatio"] = std::to_string(sums.tokens_hit * 100 / sums.tokens_asked) + "%";
  if (facts.pool && !facts.pool->spec.backend.empty()) status["backend"] = facts.pool->spec.backend;
  status["conditions"] = conditions_json(
      pool_conditions(facts), api::at(before, "status.conditions"), facts.generation, now);
  return status;
}

}  // namespace larder::reconcile
