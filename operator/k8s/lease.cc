#include "operator/k8s/lease.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <random>

#include "operator/k8s/wall_time.h"

namespace larder::k8s {
namespace {

// A lost race is followed by a renewal on the new version: the holder keeps its lease despite
// foreign changes.
constexpr std::uint64_t kAtOnceMs = 100;  // after a write that lost a race

// The holder's duration, since the holder may be another version of the operator.
// The bound keeps a wrong duration of a foreign writer from blocking the election for years.
std::uint64_t duration_ms_of(const api::Object& lease, std::uint64_t otherwise_ms) {
  constexpr std::int64_t kMostSeconds = 3600;
  const std::int64_t seconds = api::number_at(lease, "spec.leaseDurationSeconds");
  return seconds <= 0 ? otherwise_ms
                      : static_cast<std::uint64_t>(std::min(seconds, kMostSeconds)) * 1000;
}

// Checks an answered Lease, the base of the next write.
// A server in the place of the API server may answer 200 with any JSON (F-233). The lease counts as
// written only with a Lease in the answer.
bool is_lease(const api::Object& answer) {
  return api::at(answer, "spec").is_object() && api::at(answer, "metadata").is_object();
}

// leaseTransitions has fewer bits in the API server.
std::int64_t one_more(std::int64_t transitions) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return transitions < 0 || transitions >= kMost ? 0 : transitions + 1;
}

}  // namespace

// The name of a pod stays the same when its container restarts. A restarted process must not take
// its predecessor's lease for its own.
std::string unique_identity(const std::string& name) {
  std::random_device random;
  char text[20] = {};
  std::snprintf(text, sizeof(text), "_%08x%08x", random(), random());
  return name + text;
}

LeaderLease::LeaderLease(ApiClient& client, LeaseOptions options, const base::Clock& monotonic,
                         const base::Clock& boottime)
    : client_(client), options_(std::move(options)), monotonic_(monotonic), boottime_(boottime) {}

// Both clocks count, since CLOCK_MONOTONIC stands still while a machine sleeps. Another replica has
// not slept.
std::uint64_t LeaderLease::left_ms() const {
  const auto left = [](const std::atomic<std::uint64_t>& until_ms, const base::Clock& clock) {
    const std::uint64_t until = until_ms.load(), now_ms = clock.now_ms();
    return until > now_ms ? until - now_ms : 0;
  };
  const std::uint64_t by_monotonic = left(until_monotonic_ms_, monotonic_);
  return by_monotonic == 0 ? 0 : std::min(by_monotonic, left(until_boottime_ms_, boottime_));
}

// Counted from before the request: the server may have written the lease at the start of a slow
// request, and candidates count from then.
void LeaderLease::hold_from(Times before) {
  const std::uint64_t for_ms =
      options_.duration_ms - std::min(options_.duration_ms, options_.margin_ms);
  until_monotonic_ms_ = before.monotonic_ms + for_ms;
  until_boottime_ms_ = before.boottime_ms + for_ms;
}

LeaderLease::Step LeaderLease::step() {
  // Renew only within our time. A later renewal could follow the acquisition of another replica.
  if (own_.is_null() || !held()) {
    own_ = nullptr;
    return acquire_or_wait();
  }
  api::Object renewed = own_;
  renewed["spec"]["renewTime"] = wall_time();
  return write(std::move(renewed), false, now());
}

// A candidate counts from the change that it saw itself. renewTime of the lease comes from a
// foreign clock and is not compared.
void LeaderLease::note(const api::Object& lease, std::uint64_t now_ms) {
  const std::string version = api::text_at(lease, "metadata.resourceVersion");
  seen_holder_ = api::text_at(lease, "spec.holderIdentity");
  if (version == seen_version_) return;
  seen_version_ = version;
  seen_since_ms_ = now_ms;
}

LeaderLease::Step LeaderLease::acquire_or_wait() {
  Result<api::Object> found = client_.get(resources::kLeases, options_.ns, options_.name);
  const Times before = now();  // after the answer: another replica may have just renewed
  if (!found.ok() && found.status().code() == Code::kNotFound) return write(fresh(), true, before);
  if (!found.ok()) return {options_.renew_ms, found.status()};
  note(*found, before.monotonic_ms);
  const std::uint64_t duration_ms = duration_ms_of(*found, options_.duration_ms);
  const std::uint64_t unchanged_ms = before.monotonic_ms - seen_since_ms_;
  // An empty holder was released. Our own identity can be there after a lost answer to our own
  // write.
  const bool free =
      seen_holder_.empty() || seen_holder_ == options_.identity || unchanged_ms >= duration_ms;
  if (!free) return {std::min(options_.renew_ms, duration_ms - unchanged_ms)};
  api::Object ours = fresh();
  // The version makes the write fail if another candidate was faster.
  ours["metadata"]["resourceVersion"] = seen_version_;
  ours["spec"]["leaseTransitions"] = one_more(api::number_at(*found, "spec.leaseTransitions"));
  return write(std::move(ours), false, before);
}

api::Object LeaderLease::fresh() const {
  const std::string time = wall_time();
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", {{"namespace", options_.ns}, {"name", options_.name}}},
          {"spec",
           {{"holderIdentity", options_.identity},
            {"leaseDurationSeconds", options_.duration_ms / 1000},
            {"acquireTime", time},
            {"renewTime", time},
            {"leaseTransitions", 0}}}};
}

LeaderLease::Step LeaderLease::write(api::Object lease, bool create, Times before) {
  Result<api::Object> written = create ? client_.create(resources::kLeases, lease)
                                       : client_.replace(resources::kLeases, lease);
  if (written.ok() && !is_lease(*written)) {
    // The write may have happened nevertheless. The next step reads the lease and finds our
    // identity.
    own_ = nullptr;
    return {options_.renew_ms,
            Status(Code::kInvalidArgument,
                   "the server's answer to the write of the lease is not a lease")};
  }
  if (written.ok()) {
    hold_from(before);
    seen_holder_ = options_.identity;
    own_ = std::move(*written);
    return {options_.renew_ms};
  }
  // Another replica was first, or an earlier try of ours succeeded: read the lease again.
  // Other errors leave the time of the lease as it is: the holder may still write until the end of
  // its last renewal.
  const bool changed = written.status().code() == Code::kFailedPrecondition ||
                       written.status().code() == Code::kAlreadyExists;
  if (!changed) return {options_.renew_ms, written.status()};
  const Result<api::Object> found = client_.get(resources::kLeases, options_.ns, options_.name);
  if (!found.ok()) return {options_.renew_ms, found.status()};
  note(*found, monotonic_.now_ms());
  // Still ours, e.g. after a change of annotations: renew and count anew. Candidates count from the
  // change.
  if (seen_holder_ == options_.identity && is_lease(*found)) {
    own_ = *found;
    return {kAtOnceMs};
  }
  // Another replica holds the lease: writes end at once, and not at the end of the time.
  own_ = nullptr;
  until_monotonic_ms_ = 0;
  until_boottime_ms_ = 0;
  return {options_.renew_ms};
}

Status LeaderLease::release() {
  const bool ours = !own_.is_null() && held();
  // The fence comes down before the request: no write of another thread can follow the release.
  until_monotonic_ms_ = 0;
  until_boottime_ms_ = 0;
  if (!ours) return {};
  api::Object given_up = std::exchange(own_, nullptr);
  given_up["spec"]["holderIdentity"] = "";
  // One second and no holder: a candidate of any version takes over at its next look.
  given_up["spec"]["leaseDurationSeconds"] = 1;
  given_up["spec"]["renewTime"] = wall_time();
  return client_.replace(resources::kLeases, given_up).status();
}

}  // namespace larder::k8s
