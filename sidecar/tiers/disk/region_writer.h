// RegionWriter: the life of a region: opened, filled, closed with a footer, and opened again as the
// oldest. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/region_file.h"

namespace larder::disk {

class RegionWriter {
 public:
  // Both outlive this object.
  RegionWriter(RegionFile& file, HealthProbe& probe) : file_(file), probe_(probe) {}
  RegionWriter(const RegionWriter&) = delete;

  // Closes full and broken regions, and opens the next region if puts need one. `closing`: closes
  // the active region once no put waits.
  void maintain(bool puts_wait, bool closing);
  // The region for a record of so many blocks; empty while the next region is being opened.
  std::optional<std::uint32_t> place(std::uint32_t blocks);

 private:
  void open_region(std::uint32_t number);
  void opened(std::uint32_t number, std::uint64_t sequence, int error, std::uint64_t failures);
  void close_region(std::uint32_t number);
  void write_footer(std::uint32_t number);
  void start_io(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> bytes,
                Device::Then then) {
    file_.start_io(kind, offset, bytes, std::move(then));
  }

  RegionFile& file_;
  HealthProbe& probe_;
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  Health& health_ = file_.health();
  Catalog& catalog_ = file_.catalog();
  Device& device_ = file_.device();
  tiers::TierCounters& counters_ = file_.counters();
};

}  // namespace larder::disk
