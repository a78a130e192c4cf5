#include "sidecar/tiers/disk/health_probe.h"

#include <memory>

#include "sidecar/base/file_limit.h"

namespace larder::disk {
namespace {

constexpr std::uint32_t kReadErrorsInRow = 3;  // a single bad place does not mean a bad device

}  // namespace

std::optional<std::string> HealthProbe::watch() {
  // Before `now`: without a request it is the time.
  const std::uint64_t oldest = file_.device().oldest_start_ns();
  const std::uint64_t now = file_.clock().now_ns();
  // The age of the oldest request counts, not the number of answers: one hanging request holds the
  // slot of an engine, even if others go on.
  const bool stalled = now - oldest > options_.stall_ms * 1'000'000;
  if (stalled && !health_.is(Health::kStalled)) {
    health_.set(Health::kStalled,
                "the device has not answered for " + std::to_string(options_.stall_ms) + " ms");
    file_.say("stalled", health_.state().reason);
    fail_waiting_(true, true);
  } else if (!stalled && health_.is(Health::kStalled)) {
    health_.clear(Health::kStalled);
    file_.say("answers again", "the device answers again");
  }
  if (volume_ && !health_.is(Health::kLost) && now >= next_check_ns_) {
    next_check_ns_ = now + options_.check_ms * 1'000'000;
    const Result<FileFacts> facts = file_.env().facts(volume_->file_path);
    if (!facts.ok()) return facts.status().text();
    // Somebody unlinked the directory or mounted over it. The open file would still work, but the
    // records would be gone after a restart.
    if (facts->inode != volume_->file_facts.inode || facts->device != volume_->file_facts.device)
      return volume_->file_path + " is another file than the one that was opened";
  }
  return std::nullopt;
}

void HealthProbe::read_failed(int error) {
  ++read_errors_in_row_;
  if (read_errors_in_row_ < kReadErrorsInRow || health_.is(Health::kReads) ||
      health_.is(Health::kLost))
    return;
  health_.set(Health::kReads, "reads fail: " + base::file_error(error));
  file_.say("reads fail", health_.state().reason);
  fail_waiting_(true, true);
}

void HealthProbe::try_reads(std::uint64_t now_ns) {
  if (!health_.is(Health::kReads) || health_.is(Health::kStalled) || probing_ ||
      !health_.retry(now_ns))
    return;
  // One attempt at a time: a hanging device would otherwise collect a request for each turn.
  probing_ = true;
  const auto block = std::make_shared<AlignedBytes>(kBlockBytes);
  // The superblock at offset 0 exists in every file. The bytes do not matter here.
  file_.start_io(IoRequest::Kind::kRead, 0, block->span(), [this, block](int error) {
    probing_ = false;
    // The cause stays, and Health::retry() has doubled the wait already.
    if (error != 0) return;
    read_errors_in_row_ = 0;
    health_.clear(Health::kReads);
    file_.say("reads work", "reads work again");
  });
}

void HealthProbe::write_failed(int error) {
  // The region that was opened ahead is opened once more, to find out when writes work again.
  if (const std::optional<std::uint32_t> ready = table_.in_state(RegionState::kReady))
    table_[*ready].state = RegionState::kFree;
  if (const std::optional<std::uint32_t> active = table_.in_state(RegionState::kActive))
    table_[*active].broken = true;
  if (health_.is(Health::kWrites) || health_.is(Health::kLost)) return;
  health_.set(Health::kWrites, "writes fail: " + base::file_error(error));
  file_.say("writes fail", health_.state().reason);
  // Gets go on: the records on the disk are readable on a full or read-only device.
  fail_waiting_(true, false);
}

void HealthProbe::opened() {
  next_check_ns_ = file_.clock().now_ns() + options_.check_ms * 1'000'000;
}

void HealthProbe::returned() {
  read_errors_in_row_ = 0;
  for (const Health::Cause cause : {Health::kLost, Health::kReads, Health::kWrites})
    health_.clear(cause);
  file_.say("is there again", "is there again");
}

}  // namespace larder::disk
