// DropLog: makes drops outlast a restart, by both copies of the superblock. Owned by the thread of
// the tier.
//
// A drop is remembered until a superblock on the disk has the drop, even while the file is away.
// The caller hides the namespace of a drop in the catalog; this object shows the namespace again
// once the chunks are erased.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/operation_table.h"
#include "sidecar/tiers/disk/region_file.h"

namespace larder::disk {

class DropLog {
 public:
  // All outlive this object.
  DropLog(RegionFile& file, OperationTable& operations, HealthProbe& probe)
      : file_(file), operations_(operations), probe_(probe) {}
  DropLog(const DropLog&) = delete;

  // Erases the chunks, and answers once the drop is on the disk. kUnavailable without a file: the
  // drop takes effect when the file is back.
  void drop(const OpPtr& op);
  // Around recover(): chunks that were dropped while the file was away must not be found even for a
  // moment. `ok`: the file is open again.
  void before_recovery();
  void recovered(bool ok);
  // Writes the superblock if the one in the file is older and writes work.
  void write_if_stale();
  // Answers the waiting drops with `why`, since the file is away.
  void lost(const Status& why);
  // Forgets the waiting operations, which the caller answers.
  void abandon();

 private:
  struct Dropped {
    protocol::NamespaceId id;
    bool all = false;
  };

  void add_pending(const Dropped& dropped);
  std::uint64_t erase_dropped(const Dropped& dropped);
  void mark_dropped(const Dropped& dropped);
  Position next_position() const;
  void write_superblock();
  void write_label_copy(std::size_t copy, bool last);
  void superblock_failed(int error);
  void start_io(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> bytes,
                Device::Then then) {
    file_.start_io(kind, offset, bytes, std::move(then));
  }

  RegionFile& file_;
  OperationTable& operations_;
  HealthProbe& probe_;
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  Health& health_ = file_.health();
  Catalog& catalog_ = file_.catalog();
  tiers::TierCounters& counters_ = file_.counters();
  bool writing_label_ = false;
  bool superblock_stale_ = false;       // the superblock in the file is older
  std::vector<Dropped> pending_drops_;  // drops that no superblock on the disk has yet
  std::vector<OpPtr> superblock_next_,
      // Drops that wait for the next write, and for the running write.
      superblock_now_;
};

}  // namespace larder::disk
