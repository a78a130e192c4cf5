// DiskEngine: the disk tier without its thread: commands in, messages out, one turn at a time.
// Owned by one thread. Time, files and randomness come from outside, so that a test can run the
// engine step by step.
//
// disk_engine.cc has puts and gets, disk_regions.cc the life of a region, disk_maintenance.cc
// failures and drops.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/command.h"
#include "sidecar/tiers/disk/catalog.h"
#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/env.h"
#include "sidecar/tiers/disk/flight_window.h"
#include "sidecar/tiers/disk/health.h"
#include "sidecar/tiers/disk/options.h"
#include "sidecar/tiers/disk/region_table.h"
#include "sidecar/tiers/disk/time_to_live.h"
#include "sidecar/tiers/disk/volume.h"

namespace larder::disk {

using tiers::Command;
using tiers::Outcome;

class DiskEngine {
 public:
  // All arguments outlive this object. Resets the catalog. The caller hides the namespace of a drop
  // in the catalog before accept(); the engine shows it again once the drop is done.
  DiskEngine(Env& env, const base::Clock& clock, const DiskOptions& options, Catalog& catalog);

  // Opens the directory and recovers its content. Configuration errors name the field.
  Status start();
  void accept(const Command& command);
  // One round: results of the device, new requests, deadlines. Waits up to `timeout_ns` without
  // work.
  void turn(std::uint64_t timeout_ns);
  void take_outcomes(std::vector<Outcome>& out);
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
    state.mode = mode_;
    return state;
  }
  tiers::TierCounters counters() const;  // without `refused` and in_flight_bytes
  // The largest slot that the tier accepts; 0 if unknown.
  std::uint64_t most_slot_bytes() const { return disk::most_slot_bytes(std::uint64_t{table_.region_blocks()} * kBlockBytes); }

 private:
  struct Op {
    Command command;
    std::uint64_t serial = 0;
    bool done = false;           // kDone is sent
    bool on_device = false;      // the device uses the slot
    bool cancelled = false;      // dropped or lost meanwhile: fails whatever the device reports
    std::uint64_t began_ns = 0;  // the start at the device
    std::uint64_t dropped = 0;   // of a drop: chunks
    AlignedBytes head;
  };
  struct Dropped {
    protocol::NamespaceId id;
    bool all = false;
  };
  using OpPtr = std::shared_ptr<Op>;  // shared by the lists and the callback of the device

  // disk_engine.cc
  void finish(const OpPtr& op, Status status, const tiers::ChunkFacts& facts = {});
  void released(const OpPtr& op);
  void pump_reads();
  void pump_writes();
  void start_read(const OpPtr& op, const Located& located);
  void read_done(const OpPtr& op, const Located& located, const RegionId& id, int error);
  void start_write(const OpPtr& op, std::uint32_t number);
  void write_done(const OpPtr& op, const Record& record, std::uint32_t number, int error);
  void miss_deadlines();
  void fail_waiting(bool puts, bool gets);

  // disk_regions.cc
  void maintain_regions();
  std::optional<std::uint32_t> place(std::uint32_t blocks);
  void open_region(std::uint32_t number);
  void opened(std::uint32_t number, std::uint64_t sequence, int error, std::uint64_t failures);
  void close_region(std::uint32_t number);
  void write_footer(std::uint32_t number);
  void start_io(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> bytes, Device::Then then);

  // disk_maintenance.cc
  Status open_and_recover();
  void maintain_health();
  void maintain_flushes();
  void read_failed(int error);
  void write_failed(int error);
  void probe_read();
  void lose(const std::string& why);
  void drop(const OpPtr& op);
  void cancel(const std::function<bool(const tiers::ChunkKey&)>& unwanted);
  void owe(const Dropped& dropped);
  std::uint64_t erase_dropped(const Dropped& dropped);
  void mark_dropped(const Dropped& dropped);
  void forget(const Command& command);
  void bury(std::uint32_t number, const Record& record);
  void write_graves();
  void take_out_graves();
  Position next_position() const;
  void write_superblock();
  void write_label_copy(std::size_t copy, bool last);
  void superblock_failed(int error);
  bool stands(const RegionId& id) const {
    return id.region < table_.count() && volume_->superblock.volume == id.volume && table_[id.region].sequence == id.sequence;
  }
  RegionId id_of(std::uint32_t number) const { return {volume_->superblock.volume, table_[number].sequence, number}; }
  // `kind`: a fixed name; the rate of log lines is bounded by kind.
  void say(std::string_view kind, const std::string& text) const;

  Env& env_;
  const base::Clock& clock_;
  const DiskOptions& options_;
  Catalog& catalog_;
  Health health_;
  TimeToLive ttl_;
  AlignedBytes scratch_{kScratchBytes};  // declared before device_, which may write here until its end
  AlignedBytes superblock_bytes_{kSuperblockBytes};
  std::string queue_fallback_, mode_;
  Device device_;
  std::optional<Volume> volume_;
  RegionTable table_{0, 0};
  std::uint64_t first_path_device_ = 0;

  // Records to overwrite in place. Kept even while the file is away.
  struct Tombstone {
    RegionId id;
    Record record;
    std::uint32_t failures = 0;
  };
  std::deque<Tombstone> tombstones_;
  std::list<OpPtr> live_;  // accepted and not done
  std::deque<OpPtr> reads_, writes_;
  std::vector<Outcome> outcomes_;
  std::uint64_t next_serial_ = 0;
  FlightWindow read_window_, write_window_;
  std::uint64_t reading_bytes_ = 0, writing_bytes_ = 0;  // at the device
  std::uint64_t next_deadline_ns_ = UINT64_MAX;          // a lower bound
  std::uint64_t next_check_ns_ = 0;
  std::uint32_t read_errors_in_row_ = 0;
  bool probing_ = false;
  bool closing_ = false;
  bool flushing_ = false;
  bool writing_label_ = false;
  bool superblock_stale_ = false;                        // the superblock in the file is older
  std::vector<Dropped> pending_drops_;                   // drops that no superblock on the disk has yet
  std::vector<OpPtr> superblock_next_, superblock_now_;  // drops that wait for the next write, and for the running write
  tiers::TierCounters counters_;
};

}  // namespace larder::disk
