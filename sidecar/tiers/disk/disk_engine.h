// DiskEngine: the disk tier without its thread: commands in, messages out, one turn at a time.
// Owned by one thread. Time, files and randomness come from outside, so that a test can run the
// engine step by step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/chunk_io.h"
#include "sidecar/tiers/disk/drop_log.h"
#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/operation_table.h"
#include "sidecar/tiers/disk/region_file.h"
#include "sidecar/tiers/disk/region_writer.h"
#include "sidecar/tiers/disk/tombstones.h"

namespace larder::disk {

class DiskEngine {
 public:
  // All arguments outlive this object. Resets the catalog. The caller hides the namespace of a drop
  // in the catalog before accept(); the engine shows it again once the drop is done.
  DiskEngine(Env& env, const base::Clock& clock, const DiskOptions& options, Catalog& catalog);
  DiskEngine(const DiskEngine&) = delete;

  // Opens the directory and recovers its content. Configuration errors name the field.
  Status start();
  void accept(const Command& command);
  // One round: results of the device, new requests, deadlines. Waits up to `timeout_ns` without
  // work.
  void turn(std::uint64_t timeout_ns);
  void take_outcomes(std::vector<Outcome>& out) { operations_.take_outcomes(out); }
  // The longest allowed time until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() { device_.queue().wake(); }  // thread-safe

  // Closes the open region once no put waits. closed() is true when that is done, or the device
  // does not allow it.
  void begin_close() { closing_ = true; }
  bool closed() const;
  // Answers all open operations with `why`.
  void abandon(const Status& why);
  bool device_quiet() const { return device_.in_flight() == 0; }

  tiers::TierState state() const {
    tiers::TierState state = health_.state();
    state.mode = file_.mode();
    return state;
  }
  tiers::TierCounters counters() const;  // without `refused` and in_flight_bytes
  // The largest slot that the tier accepts; 0 if unknown.
  std::uint64_t most_slot_bytes() const {
    return disk::most_slot_bytes(std::uint64_t{table_.region_blocks()} * kBlockBytes);
  }

 private:
  void start_io(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> bytes,
                Device::Then then) {
    file_.start_io(kind, offset, bytes, std::move(then));
  }

  Status open_and_recover();
  void maintain_health();
  void maintain_flushes();
  void lose(const std::string& why);
  void forget(const Command& command);
  void say(std::string_view kind, const std::string& text) const { file_.say(kind, text); }

  RegionFile file_;
  Env& env_ = file_.env();
  const base::Clock& clock_ = file_.clock();
  const DiskOptions& options_ = file_.options();
  Catalog& catalog_ = file_.catalog();
  Health& health_ = file_.health();
  const TimeToLive& ttl_ = file_.ttl();
  tiers::TierCounters& counters_ = file_.counters();
  Device& device_ = file_.device();
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  OperationTable operations_{clock_, counters_};
  HealthProbe probe_{file_, [this](bool puts, bool gets) { chunks_.fail_waiting(puts, gets); }};
  Tombstones tombstones_{file_, probe_};
  RegionWriter regions_{file_, probe_};
  DropLog drops_{file_, operations_, probe_};
  ChunkIo chunks_{file_, operations_, probe_, tombstones_, regions_};
  std::uint64_t first_path_device_ = 0;

  bool closing_ = false;
  bool flushing_ = false;
};

}  // namespace larder::disk
