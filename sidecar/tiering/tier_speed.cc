#include "sidecar/tiering/tier_speed.h"

#include <algorithm>
#include <utility>

namespace larder::tiering {
namespace {

// Beyond this factor (and a little) a read is late, and a missed deadline was not too short.
constexpr double kSlowTimes = 2;
constexpr double kSlowMoreNs = 5e6;
// A stretch beyond this factor (and kStallMoreNs) is a stall and no measurement, even without a
// missed deadline.
constexpr double kStallTimes = 4;
constexpr double kStallMoreNs = 50e6;
constexpr std::uint64_t kLongestStretchNs = 1'000'000'000;
constexpr std::uint64_t kLeastRestBytes = 1 << 20;  // bytes after the first read that give a rate
constexpr double kLeastLatencyNs = 20e3;
constexpr double kLeastBytesPerS = 1e3;
// The interval of probes while the tier is slower than its best.
constexpr std::uint64_t kSlowProbeMs = 5000;

}  // namespace

bool TierSpeed::Figures::in_time(std::uint64_t elapsed_ns, std::uint64_t bytes) const {
  return static_cast<double>(elapsed_ns) <
         kSlowTimes * expected_ns(static_cast<double>(bytes)) + kSlowMoreNs;
}

void TierSpeed::began(std::uint64_t now_ns, std::uint64_t bytes) {
  // A stretch begins with the first of parallel reads: their times overlap, and single times would
  // count the waits twice.
  if (reading_++ == 0) stretch_ = {now_ns, 0, 0, 0, 0, false};
  reading_bytes_ += bytes;
  stretch_.asked_bytes += bytes;
  probe_ms_ =
      std::max(probe_ms_,
               now_ns / 1'000'000 + (serving_ ? kLastProbeMs : 0));  // a tier in use needs no probe
}

void TierSpeed::ended(std::uint64_t now_ns, std::uint64_t bytes, bool ok, std::uint64_t begun_ns) {
  if (reading_ == 0) return;
  --reading_;
  reading_bytes_ -= std::min(bytes, reading_bytes_);
  stretch_.failed = stretch_.failed || !ok;
  if (stretch_.first_ns == 0) {
    stretch_.first_ns = now_ns;
    stretch_.first_bytes = bytes;
  }
  // A read from another device, in time, while the one with the fault stands still.
  if (ok && fault_ns_ == stretch_.begin_ns && begun_ns > noted_ns_ &&
      figures_.in_time(now_ns - begun_ns, bytes))
    faults_ = 0;  // mutation: service-beside-a-fault
  stretch_.bytes += bytes;
  // Under constant load no moment is without reads. A stretch then ends after a second all the
  // same.
  if (reading_ != 0 && now_ns - stretch_.begin_ns < kLongestStretchNs) return;
  close(now_ns);
  stretch_ = {now_ns, 0, 0, 0, reading_bytes_, false};
}

void TierSpeed::close(std::uint64_t now_ns) {
  // A failed read may end at once, or after the tier's deadline. Either would distort the figures.
  if (stretch_.bytes == 0 || now_ns <= stretch_.begin_ns) return;
  if (stretch_.failed) {
    // A chunk that has gone is no fault of a device: the bytes of others count as service.
    if (fault_ns_ != stretch_.begin_ns) faults_ = 0;
    return;
  }
  const auto elapsed_ns = static_cast<double>(now_ns - stretch_.begin_ns);
  const double expected_ns = figures_.expected_ns(static_cast<double>(stretch_.bytes));
  if (serving_ && measured_ >= kFirstProbes &&
      elapsed_ns > kStallTimes * expected_ns + kStallMoreNs) {
    if (of_one_device(now_ns)) return;
    if (!many_) return stop_serving(now_ns / 1'000'000);  // probes find the end of the stall
    // Slow but successful reads from device after device show the speed of the tier.
    learn(elapsed_ns / expected_ns);
    faults_ = 0;
    return;
  }
  faults_ = 0;
  const std::uint64_t rest = stretch_.bytes - stretch_.first_bytes;
  const std::uint64_t rest_ns = now_ns - stretch_.first_ns;
  if (rest >= kLeastRestBytes && rest >= 2 * stretch_.first_bytes && rest_ns != 0) {
    const double rate = static_cast<double>(rest) * 1e9 / static_cast<double>(rest_ns);
    // The first measurements replace the assumed figures. Later, a lower rate counts more: a
    // promise too fast costs an engine its deadline.
    const double weight = measured_ < kFirstProbes ? 1 : rate < figures_.bytes_per_s ? 0.5 : 0.25;
    const double first_ns = static_cast<double>(stretch_.first_ns - stretch_.begin_ns);
    const double latency_ns = std::max(
        kLeastLatencyNs, first_ns - static_cast<double>(stretch_.first_bytes) / rate * 1e9);
    figures_.bytes_per_s += (rate - figures_.bytes_per_s) * weight;
    figures_.latency_ns += (latency_ns - figures_.latency_ns) * weight;
    best_bytes_per_s_ = std::max(best_bytes_per_s_, figures_.bytes_per_s);
    ++measured_;
    return;
  }
  learn(elapsed_ns / expected_ns);
}

// Scales both figures by `ratio`. A slower tier is believed sooner than a faster one.
void TierSpeed::learn(double ratio) {
  const double weight = measured_ < kFirstProbes ? 1 : ratio > 1 ? 0.75 : 0.5;
  const double factor = 1 + weight * (ratio - 1);
  figures_.latency_ns = std::max(kLeastLatencyNs, figures_.latency_ns * factor);
  figures_.bytes_per_s = std::max(kLeastBytesPerS, figures_.bytes_per_s / factor);
  best_bytes_per_s_ = std::max(best_bytes_per_s_, figures_.bytes_per_s);
  ++measured_;
}

void TierSpeed::missed_deadline(std::uint64_t now_ns) {
  if (reading_ == 0) return;  // the fetch did not wait for this tier
  const std::uint64_t elapsed_ns = now_ns - stretch_.begin_ns;
  if (figures_.in_time(elapsed_ns, stretch_.asked_bytes)) return;  // the deadline was short
  if (of_one_device(now_ns)) return;                               // mutation: one-device
  stop_serving(now_ns / 1'000'000);
  // A lower bound: the stretch goes on.
  learn(static_cast<double>(elapsed_ns) /
        figures_.expected_ns(static_cast<double>(stretch_.asked_bytes)));
}

// Notes a fault of the current stretch. True: one device alone may have the fault.
bool TierSpeed::of_one_device(std::uint64_t now_ns) {
  if (!many_) return false;
  noted_ns_ = now_ns;
  if (std::exchange(fault_ns_, stretch_.begin_ns) != stretch_.begin_ns) ++faults_;
  return faults_ < kProbesToLearn;
}

void TierSpeed::stop_serving(std::uint64_t now_ms) {
  // The figures of before the miss are the yardstick for the probes. learn() lowers the current
  // ones meanwhile.
  if (serving_) before_ = figures_;
  probe_wait_ms_ = serving_ ? kFirstProbeMs : std::min(2 * probe_wait_ms_, kLastProbeMs);
  if (serving_) probe_ms_ = now_ms + probe_wait_ms_;
  serving_ = false;
  slow_probes_ = 0;
  slowest_ = 0;
}

bool TierSpeed::wants_probe(std::uint64_t now_ms) {
  if (probing_ || now_ms < probe_ms_) return false;
  probing_ = true;
  return true;
}

void TierSpeed::probe_ended(std::uint64_t now_ms, std::uint64_t bytes, std::uint64_t elapsed_ns,
                            bool ok) {
  probing_ = false;
  if (bytes == 0) {  // no chunk to read
    probe_ms_ = now_ms + kFirstProbeMs;
    return;
  }
  // Three probes at the start measure the tier before the first engine relies on it.
  probes_left_ -= probes_left_ != 0;
  if (!ok) {
    if (!many_) stop_serving(now_ms);
    probe_ms_ = now_ms + std::max(probe_wait_ms_, kFirstProbeMs);
    return;
  }
  if (!serving_) {
    const auto size = static_cast<double>(bytes);
    const double ratio = static_cast<double>(elapsed_ns) / before_.expected_ns(size);
    // The new speed is the slowest of the probes: one lucky read must not promise too much.
    slowest_ = std::max(slowest_, ratio);
    const bool fast = before_.in_time(elapsed_ns, bytes);
    if (fast) figures_ = before_;
    if (!fast && ++slow_probes_ == kProbesToLearn)
      figures_ = {before_.latency_ns * slowest_,
                  std::max(kLeastBytesPerS, before_.bytes_per_s / slowest_)};
    serving_ = fast || slow_probes_ == kProbesToLearn;
    if (!serving_) {
      probe_ms_ = now_ms + kFirstProbeMs;
      return;
    }
    faults_ = 0;
  }
  const bool slow = 2 * figures_.bytes_per_s < best_bytes_per_s_;
  probe_ms_ = probes_left_ != 0 ? now_ms : now_ms + (slow ? kSlowProbeMs : kLastProbeMs);
}

protocol::ResidencySpeed TierSpeed::view(bool takes_reads) const {
  return {serving_ && takes_reads, static_cast<std::uint64_t>(figures_.latency_ns),
          static_cast<std::uint64_t>(figures_.bytes_per_s)};
}

}  // namespace larder::tiering
