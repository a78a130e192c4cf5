// DiskEngine: the disk tier without its thread: commands in, messages out, one turn at a time. Owned by one thread; what it knows
// of time, files and chance comes from outside, so that a test can run it step by step.
//
// disk_engine.cc has the way of a put and a get, disk_regions.cc that of a region, disk_care.cc what goes wrong and drops.
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
#include "sidecar/tiers/disk/catalog.h"
#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/env.h"
#include "sidecar/tiers/disk/flight_window.h"
#include "sidecar/tiers/disk/health.h"
#include "sidecar/tiers/disk/options.h"
#include "sidecar/tiers/disk/region_table.h"
#include "sidecar/tiers/disk/time_to_live.h"
#include "sidecar/tiers/disk/volume.h"
#include "sidecar/tiers/tier.h"

namespace larder::disk {

struct Command {
  enum class Kind : std::uint8_t { kOperation, kForget, kEvict };  // the last two: no message
  Kind kind = Kind::kOperation;
  tiers::Operation operation = tiers::Operation::kPut;
  tiers::Ticket ticket = 0;
  tiers::ChunkKey key;  // drop: its namespace alone
  tiers::ChunkFacts facts;
  std::span<std::byte> slot;
  std::uint64_t deadline_ns = 0;
};

struct Outcome {
  tiers::Message message;
  std::uint64_t freed_bytes = 0;  // of the bytes accepted
  bool freed = false;             // one of the operations accepted
};

class DiskEngine {
 public:
  // All of them outlive it. The catalog is reset; drops hide their namespace in it before they are accepted, and show it when done.
  DiskEngine(Env& env, const base::Clock& clock, const DiskOptions& options, Catalog& catalog);

  // Opens the directory and recovers what is in it: configuration errors by the name of their field.
  Status start();
  void accept(const Command& command);
  // One round: device results, what they allow to be started, deadlines. Waits up to `timeout_ns` where there is nothing to do.
  void turn(std::uint64_t timeout_ns);
  void take_outcomes(std::vector<Outcome>& out);
  // At most this long may pass until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() { device_.queue().wake(); }  // thread-safe

  // Closes the open region once nothing waits; closed() when that is done, as far as the device lets it.
  void begin_close() { closing_ = true; }
  bool closed() const;
  // Answers everything that is not answered.
  void abandon(const Status& why);
  bool device_quiet() const { return device_.in_flight() == 0; }

  tiers::TierState state() const {
    tiers::TierState state = health_.state();
    state.mode = mode_;
    return state;
  }
  tiers::TierCounters counters() const;  // without `refused` and what is in flight
  // The longest slot that is written; 0 where that is not known.
  std::uint64_t most_slot_bytes() const { return disk::most_slot_bytes(std::uint64_t{table_.region_blocks()} * kBlockBytes); }

 private:
  struct Op {
    Command command;
    std::uint64_t serial = 0;
    bool done = false;           // its kDone is out
    bool on_device = false;      // the device has the slot
    bool cancelled = false;      // dropped or lost meanwhile: whatever the device says, it failed
    std::uint64_t began_ns = 0;  // at the device
    std::uint64_t dropped = 0;   // chunks, of a drop
    AlignedBytes head;
  };
  struct Dropped {
    protocol::NamespaceId id;
    bool all = false;
  };
  using OpPtr = std::shared_ptr<Op>;  // shared by the lists and by what runs when the device is done

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

  // disk_care.cc
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
  // `kind`: a fixed name, by which lines of one kind are bounded.
  void say(std::string_view kind, const std::string& text) const;

  Env& env_;
  const base::Clock& clock_;
  const DiskOptions& options_;
  Catalog& catalog_;
  Health health_;
  TimeToLive ttl_;
  AlignedBytes scratch_{kScratchBytes};  // before the device, which may write to it until its end
  AlignedBytes superblock_bytes_{kSuperblockBytes};
  std::string queue_fallback_, mode_;
  Device device_;
  std::optional<Volume> volume_;
  RegionTable table_{0, 0};
  std::uint64_t first_path_device_ = 0;

  // Records that are to be written over where they stand. Remembered also while the file is away.
  struct Tombstone {
    RegionId id;
    Record record;
    std::uint32_t failures = 0;
  };
  std::deque<Tombstone> tombstones_;
  std::list<OpPtr> live_;  // accepted, not done
  std::deque<OpPtr> reads_, writes_;
  std::vector<Outcome> outcomes_;
  std::uint64_t next_serial_ = 0;
  FlightWindow read_window_, write_window_;
  std::uint64_t reading_bytes_ = 0, writing_bytes_ = 0;  // at the device
  std::uint64_t next_deadline_ns_ = UINT64_MAX;          // none is earlier
  std::uint64_t next_check_ns_ = 0;
  std::uint32_t read_errors_in_row_ = 0;
  bool probing_ = false;
  bool closing_ = false;
  bool flushing_ = false;
  bool writing_label_ = false;
  bool superblock_stale_ = false;                        // the file's is older than ours
  std::vector<Dropped> pending_drops_;                   // drops that no superblock on the disk tells of yet
  std::vector<OpPtr> superblock_next_, superblock_now_;  // drops that wait for the next writing, for the one that runs
  tiers::TierCounters counters_;
};

}  // namespace larder::disk
