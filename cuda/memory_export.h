// PageExport: an engine's KV memory in a form that another process can open. Names each allocation
// once, by a legacy handle or by a descriptor.
//
// Immutable and thread-safe. Only open descriptors of the handles keep memory alive; a PageExport
// keeps none.
#pragma once

#include <functional>
#include <span>

#include "cuda/memory_handle.h"

namespace larder::copy {

// The pages of one layer, from the first byte of the first page to the last byte of the last.
struct PageSpan {
  const std::byte* first = nullptr;
  std::uint64_t bytes = 0;
};

class PageExport {
 public:
  struct Range {
    const std::byte* first = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t id = 0;  // unique among all allocations of this process
  };
  PageExport() = default;
  PageExport(const DeviceId& device, std::vector<Range> ranges)
      : device_(device), ranges_(std::move(ranges)) {}

  const DeviceId& device() const { return device_; }
  const std::vector<Range>& ranges() const { return ranges_; }
  // The piece under its name of protocol::make_piece(). kNoPiece: the piece lies in no range.
  std::uint64_t piece(const std::byte* page, std::uint64_t bytes) const;

 private:
  DeviceId device_{};
  std::vector<Range> ranges_;  // sorted by address
};

// The driver's part of an export. Tests put their own in its place.
class MemoryExporter {
 public:
  virtual ~MemoryExporter() = default;
  // Exports the pages. Refuses with kHostMemory, kNotExportable, kMig, kBound or kOldDriver (see
  // TransferReason). `handles` gets one handle for each range. REQUIRES: all pages lie on one
  // device.
  virtual TransferRefusal take(std::span<const PageSpan> pages, PageExport& made,
                               std::vector<MemoryHandle>& handles) const = 0;
  // Whether the same allocations still exist. Any thread may ask. kNotFound: memory was freed, or
  // unmapped for sleep, even if new memory has the same address. Any other failure: the driver
  // gives no answer.
  virtual Status still_there(const PageExport& made) const = 0;
};

// The exporter over the loaded libcuda. Static lifetime.
const MemoryExporter& cuda_exporter();

}  // namespace larder::copy
