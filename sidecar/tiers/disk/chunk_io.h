// ChunkIo: reads and writes chunks, as many bytes at once as the windows allow. Owned by the thread
// of the tier.
#pragma once

#include <cstdint>
#include <deque>

#include "sidecar/tiers/disk/flight_window.h"
#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/operation_table.h"
#include "sidecar/tiers/disk/region_file.h"
#include "sidecar/tiers/disk/region_writer.h"
#include "sidecar/tiers/disk/tombstones.h"

namespace larder::disk {

class ChunkIo {
 public:
  // All outlive this object.
  ChunkIo(RegionFile& file, OperationTable& operations, HealthProbe& probe, Tombstones& tombstones,
          RegionWriter& regions)
      : file_(file),
        operations_(operations),
        probe_(probe),
        tombstones_(tombstones),
        regions_(regions) {}
  ChunkIo(const ChunkIo&) = delete;

  void add_read(const OpPtr& op) { reads_.push_back(op); }
  void add_write(const OpPtr& op) { writes_.push_back(op); }
  // Start waiting operations while the device has room for them.
  void pump_reads();
  void pump_writes();
  bool writes_wait() const { return !writes_.empty(); }
  // Fails waiting operations at once when the device hangs or refuses.
  void fail_waiting(bool puts, bool gets);
  // Forgets the waiting operations, which the caller answers.
  void clear();
  // Sets the gauges of the windows.
  void fill(tiers::TierCounters& counters) const;

 private:
  void start_read(const OpPtr& op, const Located& located);
  void read_done(const OpPtr& op, const Located& located, const RegionId& id, int error);
  void start_write(const OpPtr& op, std::uint32_t number);
  void write_done(const OpPtr& op, const Record& record, std::uint32_t number, int error);

  RegionFile& file_;
  OperationTable& operations_;
  HealthProbe& probe_;
  Tombstones& tombstones_;
  RegionWriter& regions_;
  Env& env_ = file_.env();
  const base::Clock& clock_ = file_.clock();
  const DiskOptions& options_ = file_.options();
  Catalog& catalog_ = file_.catalog();
  Health& health_ = file_.health();
  const TimeToLive& ttl_ = file_.ttl();
  Device& device_ = file_.device();
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  tiers::TierCounters& counters_ = file_.counters();
  std::deque<OpPtr> reads_, writes_;
  FlightWindow read_window_{options_.read_bytes_in_flight},
      write_window_{options_.write_bytes_in_flight};
  std::uint64_t reading_bytes_ = 0, writing_bytes_ = 0;  // at the device
};

}  // namespace larder::disk
