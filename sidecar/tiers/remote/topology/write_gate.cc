#include "sidecar/tiers/remote/topology/write_gate.h"

#include <algorithm>

#include "sidecar/base/time_units.h"

namespace larder::remote {
namespace {

using base::kNsPerMs;

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kTrialNs = 40 * kSecondNs;  // every put has ended by then
constexpr std::uint64_t kOfferNs = 5 * kSecondNs, kLeastOfferNs = kSecondNs / 10;
constexpr std::uint64_t kLossesNs = 60 * kSecondNs;  // losses further apart are not in a row
constexpr std::uint32_t kLosses = 3;
// As often as INFO is asked (kRoomEveryNs): an earlier trial would rest on the same answer.
constexpr std::uint64_t kLeastEarlyNs = 2 * kSecondNs;
constexpr std::uint64_t kBesideBytes = 2 << 20;
constexpr std::uint64_t kAmpleBytes = 256ULL << 20;  // more than ever in flight at once

}  // namespace

bool WriteGate::begin(std::uint64_t bytes, std::uint64_t now_ns, std::uint64_t of) {
  // A smaller chunk is no trial: its success proves nothing about larger chunks.
  if (bytes < closed_from()) return false;
  trial_until_ns_ = now_ns + kTrialNs;
  trial_of_ = of;
  return true;
}

void WriteGate::open() {
  closed_from_ = UINT64_MAX;
  reason_.clear();
  full_ = false;
  trial_until_ns_ = 0;
}

void WriteGate::forget_largest() {
  largest_refused_ = UINT64_MAX;
  largest_reason_.clear();
}

// A put that began before the refusal says nothing about the time after the refusal.
void WriteGate::stored(const Put& put) {
  if (put.bytes >= lost_from_) {
    losses_ = 0;
    lost_from_ = UINT64_MAX;
  }
  if (put.bytes < closed_from() || put.begun_ns < closed_ns_) return;
  trial_until_ns_ = 0;
  if (put.bytes >= largest_refused_) forget_largest();
  if (put.bytes < closed_from_) return;
  // A full server with a little room takes one chunk after the other. The gate stays closed, and
  // each stored chunk is subtracted from the room.
  if (full_ && free_bytes_ && *free_bytes_ < kAmpleBytes) {
    const std::uint64_t left = *free_bytes_ - std::min(*free_bytes_, put.bytes);
    free_when_refused_ = free_bytes_ = left;
    next_ns_ = fits(closed_from_, left)
                   ? put.begun_ns
                   : std::max(next_ns_, put.begun_ns + pauses_.most_ms * kNsPerMs);
    return;
  }
  if (full_ && free_bytes_) forget_largest();  // ample room
  open();
  wait_ns_ = early_wait_ns_ = early_ns_ = 0;
  unknown_ = 0;
}

void WriteGate::refused(const Put& put, const std::string& reason, Why why, std::uint64_t now_ns) {
  closed_from_ = std::min(closed_from_, put.bytes);
  // Many puts are in flight when a server becomes full. Their refusals are one event, and must not
  // double the pause each.
  if (put.begun_ns < closed_ns_) return;  // began before the last refusal
  reason_ = reason;
  full_ = why == Why::kFull;
  unknown_ = why == Why::kUnknown ? unknown_ + 1 : 0;
  free_when_refused_.reset();
  free_bytes_.reset();
  const std::uint64_t most_ns = pauses_.most_ms * kNsPerMs;
  // The first unknown error may be over already, so the first pause ignores the cost of the trial.
  const bool at_once = pauses_.trial_bytes_per_s == 0 || unknown_ == 1;
  const std::uint64_t cost_ns =
      at_once ? 0 : put.sent_bytes * kNsPerMs / pauses_.trial_bytes_per_s * 1000;
  wait_ns_ = std::min(std::max({2 * wait_ns_, pauses_.least_ms * kNsPerMs, cost_ns}), most_ns);
  closed_ns_ = now_ns;
  // Jitter of up to a quarter: several larderd share the server, and their trials should not
  // coincide.
  next_ns_ = now_ns + wait_ns_ + random_() % (wait_ns_ / 4 + 1);
  if (largest_refused_ == UINT64_MAX || put.bytes >= largest_refused_) {
    largest_refused_ = put.bytes;
    largest_next_ns_ = next_ns_;
    largest_reason_ = reason;
  }
  trial_until_ns_ = 0;
}

void WriteGate::lost(const Put& put, const std::string& reason, std::uint64_t now_ns) {
  trial_until_ns_ = 0;
  if (put.begun_ns < lost_ns_) return;  // the same event
  // A restart of the server ends a connection as well. Three in a row, with chunks of this size,
  // point to a limit.
  losses_ = now_ns - lost_ns_ > kLossesNs && !closed() ? 1 : losses_ + 1;
  lost_ns_ = now_ns;
  lost_from_ = std::min(lost_from_, put.bytes);
  if (losses_ >= kLosses) refused(put, reason, Why::kKnown, now_ns);
}

// Whether a chunk fits with the overhead of the server and with commands in flight.
bool WriteGate::fits(std::uint64_t bytes, std::uint64_t free_bytes) {
  return free_bytes >= bytes + bytes / 8 + kBesideBytes;
}

void WriteGate::has_room(std::uint64_t free_bytes, std::uint64_t now_ns) {
  if (!full()) return;
  if (!free_when_refused_) free_when_refused_ = free_bytes;
  free_bytes_ = free_bytes;
  // More room than at the refusal, by a whole chunk: the server refused with as much room before.
  if (!fits(closed_from_, free_bytes) || free_bytes - closed_from_ < *free_when_refused_ ||
      now_ns < early_ns_)
    return;
  early_wait_ns_ =
      std::min(std::max(2 * early_wait_ns_, kLeastEarlyNs), pauses_.most_ms * kNsPerMs);
  early_ns_ = now_ns + early_wait_ns_;
  next_ns_ = std::min(next_ns_, now_ns);
  if (largest_refused_ != UINT64_MAX && fits(largest_refused_, free_bytes))
    largest_next_ns_ = std::min(largest_next_ns_, now_ns);
}

void WriteGate::tick(std::uint64_t now_ns) {
  // No chunk of the size came for minutes after the pause. Keeping the gate closed would only keep
  // an old reason in the status.
  if (now_ns >= largest_next_ns_ + pauses_.most_ms * kNsPerMs && now_ns >= trial_until_ns_)
    forget_largest();
  if (closed() && now_ns >= next_ns_ + pauses_.most_ms * kNsPerMs && now_ns >= trial_until_ns_)
    open();
}

std::uint64_t WriteGate::again_ns(std::uint64_t now_ns) const {
  const std::uint64_t largest_ns = largest_refused_ == UINT64_MAX ? 0 : largest_next_ns_;
  return std::clamp(std::max({next_ns_, trial_until_ns_, largest_ns}), now_ns + kLeastOfferNs,
                    now_ns + kOfferNs);
}

}  // namespace larder::remote
