// HealthProbe: finds out when the device fails or hangs, when the directory goes away, and when all
// work again. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "sidecar/tiers/disk/region_file.h"

namespace larder::disk {

class HealthProbe {
 public:
  // `file` outlives this object. `fail_waiting` fails the waiting puts or gets at once, when the
  // device hangs or refuses.
  HealthProbe(RegionFile& file, std::function<void(bool puts, bool gets)> fail_waiting)
      : file_(file), fail_waiting_(std::move(fail_waiting)) {}
  HealthProbe(const HealthProbe&) = delete;

  // Looks for a hanging device, and at the directory if a check is due. Returns why the directory
  // was lost, if so.
  std::optional<std::string> watch();
  // Reads one block if reads fail and an attempt is due.
  void try_reads(std::uint64_t now_ns);
  void read_failed(int error);
  void read_worked() { read_errors_in_row_ = 0; }
  // Also closes the active region, and opens the ready one anew.
  void write_failed(int error);
  // The file was opened: the next check of the directory is a whole period away.
  void opened();
  // A lost file is back.
  void returned();

 private:
  RegionFile& file_;
  std::optional<Volume>& volume_ = file_.volume();
  RegionTable& table_ = file_.table();
  Health& health_ = file_.health();
  const DiskOptions& options_ = file_.options();
  std::function<void(bool puts, bool gets)> fail_waiting_;
  std::uint64_t next_check_ns_ = 0;
  std::uint32_t read_errors_in_row_ = 0;
  bool probing_ = false;
};

}  // namespace larder::disk
