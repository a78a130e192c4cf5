#include "sidecar/tiers/plugin/removals.h"

namespace larder::plugin {

namespace {
constexpr std::uint64_t kRetryNs = 500'000'000;
}  // namespace

void Removals::add(const tiers::ChunkKey& key, std::uint64_t serial) {
  const auto known = by_key_.find(key);
  // A sent removal may run before a put that is open now: the new removal goes out after the put.
  if (known != by_key_.end()) {
    waiting_.erase(known->second);
    // Beyond the bound an object stays in the service until the service evicts the object.
  } else if (waiting_.size() >= kMost) {
    return;
  }
  by_key_[key] = serial;
  waiting_[serial] = {key, false};
}

void Removals::pump(OpenCalls& calls, std::uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  for (auto& [serial, removal] : waiting_) {
    if (calls.removes() >= OpenCalls::kMostRemoves) return;
    if (removal.sent || calls.writes(removal.key)) continue;
    removal.sent = true;
    calls.remove(0, removal.key);
  }
}

void Removals::answered(const tiers::ChunkKey& key, Outcome outcome, std::uint64_t now_ns) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return;
  const auto at = waiting_.find(known->second);
  if (!at->second.sent) return;  // the answer to an earlier REMOVE of the key
  if (outcome != Outcome::kOk && outcome != Outcome::kNotFound) {
    // All removals wait: the next one would fail for the same reason.
    at->second.sent = false;
    next_ns_ = now_ns + kRetryNs;
    return;
  }
  waiting_.erase(at);
  by_key_.erase(known);
}

void Removals::life_ended() {
  for (auto& [serial, removal] : waiting_) removal.sent = false;
  next_ns_ = 0;
}

std::uint64_t Removals::next_ns(std::uint64_t now_ns) const {
  return !waiting_.empty() && now_ns < next_ns_ ? next_ns_ : UINT64_MAX;
}

}  // namespace larder::plugin
