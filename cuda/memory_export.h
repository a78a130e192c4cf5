// PageExport: an engine's KV memory as another process can open it: its allocations, each once, by a legacy handle or by a descriptor.
//
// Immutable after it is made, and thread-safe. It keeps no memory alive, but for the descriptors that its handles have.
#pragma once

#include <functional>
#include <span>

#include "cuda/memory_handle.h"

namespace larder::copy {

// Where pages of one layer lie, from the first byte of the first to the last of the last.
struct PageSpan {
  const std::byte* first = nullptr;
  std::uint64_t bytes = 0;
};

class PageExport {
 public:
  struct Range {
    const std::byte* first = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t id = 0;  // no later allocation of this process has it
  };
  PageExport() = default;
  PageExport(const DeviceId& device, std::vector<Range> ranges) : device_(device), ranges_(std::move(ranges)) {}

  const DeviceId& device() const { return device_; }
  const std::vector<Range>& ranges() const { return ranges_; }
  // The piece as protocol::make_piece() names it; kNoPiece: it lies in no range.
  std::uint64_t piece(const std::byte* page, std::uint64_t bytes) const;

 private:
  DeviceId device_{};
  std::vector<Range> ranges_;  // by address
};

// What an engine asks of its driver, and tests of what they put in its place.
class MemoryExporter {
 public:
  virtual ~MemoryExporter() = default;
  // kHostMemory, kNotExportable, kMig, kBound, kOldDriver: see TransferReason. `handles`: one for each range. REQUIRES: all on one device.
  virtual TransferRefusal take(std::span<const PageSpan> pages, PageExport& made, std::vector<MemoryHandle>& handles) const = 0;
  // Whether the same allocations are still there, asked on any thread. kNotFound: memory that was freed, or unmapped to sleep, also where it is there anew. Any other
  // failure: the driver does not say.
  virtual Status still_there(const PageExport& made) const = 0;
};

// Of libcuda as this process has loaded it. Static lifetime.
const MemoryExporter& cuda_exporter();

}  // namespace larder::copy
