#include "sidecar/tiers/remote/chunks/backend_health.h"

#include <string_view>
#include <utility>

#include "sidecar/tiers/remote/chunks/backend_log.h"

namespace larder::remote {

namespace {

constexpr std::uint64_t kLineNs = 60'000'000'000;

}  // namespace

void BackendHealth::maintain() {
  // Ready with one server of a Cluster: the other keys are refused key by key, see
  // ServerHealth::refusal().
  if (backend_.ready()) {
    if (health_.clear(Health::kConnection)) say(options_, "connected again", "connected again");
  } else if (!backend_.failure().ok()) {
    const std::string reason = "no connection to the server: " + backend_.failure().to_string();
    if (health_.set(Health::kConnection, reason)) say(options_, "no connection", reason);
    // Callers should not wait for their deadlines: a refused get lets the engine compute at once.
    listener_.fail_waiting(true, true);
    listener_.fail_awaiting({Code::kUnavailable, reason});
    return;
  }
  Backend::Troubles troubles = backend_.troubles();
  follow(Health::kReads, troubles.reads);
  // A server without answers is one fault, not two.
  if (troubles.reads.empty()) follow(Health::kWrites, troubles.writes);
  if (part_.empty() && !troubles.part.empty()) say(options_, "some masters", troubles.part);
  if (!part_.empty() && troubles.part.empty())
    say(options_, "all masters", "all masters are well again");
  part_ = std::move(troubles.part);
  refused_chunks_ = std::move(troubles.chunks);
}

void BackendHealth::follow(Health::Cause cause, const std::string& reason) {
  const bool reads = cause == Health::kReads;
  // Writes may be refused and accepted in turn: each gets one line a minute.
  const auto due = [this, reads](std::uint64_t& next_ns) {
    const std::uint64_t now = clock_.now_ns();
    return reads || (now >= next_ns && (next_ns = now + kLineNs) != 0);
  };
  if (reason.empty()) {
    const std::string_view again = reads ? "answers again" : "takes writes again";
    if (health_.clear(cause) && due(taken_line_ns_)) say(options_, again, std::string(again));
    return;
  }
  if (!health_.set(cause, reason)) return;
  if (due(refused_line_ns_)) say(options_, reads ? "reads fail" : "writes fail", reason);
  // Puts wait for reads too: each put reads the earlier record first.
  listener_.fail_waiting(true, reads);
}

tiers::TierState BackendHealth::state() const {
  tiers::TierState state = health_.state();
  if (state.reason.empty()) state.reason = part_;
  if (state.reason.empty()) state.reason = refused_chunks_;
  const char* const mode = options_.mode == Mode::kCluster    ? "Cluster, "
                           : options_.mode == Mode::kSentinel ? "Sentinel, "
                                                              : "";
  state.mode = std::string(mode) + (!options_.unix_path.empty() ? "Unix socket"
                                    : options_.tls.enabled      ? "TLS"
                                                                : "TCP");
  return state;
}

}  // namespace larder::remote
