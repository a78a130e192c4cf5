// ChunkIo: reads and writes chunks, as many bytes at once as the windows allow. Owned by the thread
// of the tier.
#pragma once

#include <cstdint>
#include <deque>

#include "sidecar/tiers/disk/flight_window.h"
#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/operation_table.h"
#include "sidecar/tiers/disk/region_file.h"

namespace larder::disk {

class ChunkIo {
 public:
  // All outlive this object.
  ChunkIo(RegionFile& file, OperationTable& operations, HealthProbe& probe)
      : file_(file), operations_(operations), probe_(probe) {}
  ChunkIo(const ChunkIo&) = delete;

  void add_read(const OpPtr& op) { reads_.push_back(op); }
  // Starts waiting gets while the device has room for them.
  void pump_reads();
  // Whether a get waits, or is at the device.
  bool reading() const { return reading_bytes_ != 0 || !reads_.empty(); }
  // Fails waiting gets at once when the device hangs or refuses.
  void fail_waiting();
  // Forgets the waiting operations, which the caller answers.
  void clear() { reads_.clear(); }
  std::uint64_t read_window_bytes() const { return read_window_.bytes(); }

 private:
  void start_read(const OpPtr& op, const Located& located);
  void read_done(const OpPtr& op, const Located& located, const RegionId& id, int error);

  RegionFile& file_;
  OperationTable& operations_;
  HealthProbe& probe_;
  Env& env_ = file_.env();
  const base::Clock& clock_ = file_.clock();
  Catalog& catalog_ = file_.catalog();
  Health& health_ = file_.health();
  const TimeToLive& ttl_ = file_.ttl();
  Device& device_ = file_.device();
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  tiers::TierCounters& counters_ = file_.counters();
  std::deque<OpPtr> reads_;
  FlightWindow read_window_{file_.options().read_bytes_in_flight};
  std::uint64_t reading_bytes_ = 0;  // at the device
};

}  // namespace larder::disk
