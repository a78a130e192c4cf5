#include "cuda/memory_export.h"

#include <algorithm>

#include "cuda/device_context.h"

namespace larder::copy {
namespace {

using cuda::DevicePtr;
using cuda::Driver;
using protocol::MemoryKind;
using protocol::TransferReason;

DevicePtr address(const std::byte* page) {
  return reinterpret_cast<DevicePtr>(page);
}

// Memory that was mapped by hand (pools that grow, engines that sleep) has an allocation handle.
// The driver gives a descriptor only for an allocation made for export.
TransferRefusal by_descriptor(const Driver& driver, cuda::AllocationHandle allocation,
                              MemoryHandle& handle) {
  int fd = -1;
  const cuda::ResultCode exported =
      driver->mem_export_to_shareable_handle(&fd, allocation, cuda::kHandleTypeDescriptor, 0);
  // The driver counts handles. Without the release the allocation would outlive the engine's own
  // release.
  driver->mem_release(allocation);
  if (exported != cuda::kSuccess)
    return {TransferReason::kNotExportable,
            "memory that is mapped by hand, as for sleep mode, gives no descriptor: " +
                driver.status(exported, "cuMemExportToShareableHandle").text()};
  handle.kind = MemoryKind::kDescriptor;
  handle.fd = Fd(fd);
  return {};
}

TransferRefusal by_handle(const Driver& driver, const std::byte* first, MemoryHandle& handle) {
  cuda::IpcHandle named;
  if (const cuda::ResultCode code = driver->ipc_get_mem_handle(&named, address(first));
      code != cuda::kSuccess)
    return {TransferReason::kNotExportable, driver.status(code, "cuIpcGetMemHandle").text()};
  handle.kind = MemoryKind::kHandle;
  std::copy(std::begin(named.bytes), std::end(named.bytes), handle.bytes.begin());
  return {};
}

// REQUIRES: the context of the memory is current.
TransferRefusal handle_of(const Driver& driver, const PageExport::Range& range,
                          MemoryHandle& handle) {
  // The importer compares this size with the opened allocation.
  handle.size_bytes = range.bytes;
  cuda::AllocationHandle allocation = 0;
  if (driver->mem_retain_allocation_handle(&allocation, const_cast<std::byte*>(range.first)) ==
      cuda::kSuccess)
    return by_descriptor(driver, allocation, handle);
  return by_handle(driver, range.first, handle);
}

TransferRefusal device_of_pages(const Driver& driver, const std::byte* page, DeviceId& id) {
  int ordinal = 0, device = 0;
  cuda::DeviceUuid own, whole;
  cuda::ResultCode code =
      driver->pointer_get_attribute(&ordinal, cuda::kPointerDeviceOrdinal, address(page));
  if (code == cuda::kSuccess) code = driver->device_get(&device, ordinal);
  if (code == cuda::kSuccess) code = driver->device_get_uuid(&own, device);
  if (code == cuda::kSuccess) code = driver->device_get_uuid_whole(&whole, device);
  if (code != cuda::kSuccess)
    return {TransferReason::kNotExportable, driver.status(code, "cuDeviceGetUuid").text()};
  std::copy(std::begin(own.bytes), std::end(own.bytes), id.begin());
  // The two UUIDs differ only on a MIG instance, see driver_abi.h.
  if (!std::equal(std::begin(own.bytes), std::end(own.bytes), std::begin(whole.bytes)))
    return {TransferReason::kMig,
            "the engine runs on a MIG instance, whose memory CUDA does not share"};
  return {};
}

class CudaExporter final : public MemoryExporter {
 public:
  TransferRefusal take(std::span<const PageSpan> pages, PageExport& made,
                       std::vector<MemoryHandle>& handles) const override {
    const Result<cuda::ContextPtr> context = cuda::DeviceContext::of(pages.front().first);
    if (!context.ok())
      return {TransferReason::kHostMemory,
              "the KV pages lie in host memory: " + context.status().text()};
    const Driver& driver = (*context)->driver();
    if (!driver.shares())
      return {TransferReason::kOldDriver,
              "the engine's libcuda.so.1 lacks functions that share memory"};
    const cuda::ContextScope scope(driver, (*context)->handle());
    if (!scope.status().ok()) return {TransferReason::kNotExportable, scope.status().text()};
    DeviceId device{};
    if (TransferRefusal refusal = device_of_pages(driver, pages.front().first, device);
        refusal.refused())
      return refusal;
    std::vector<PageExport::Range> ranges;
    for (const PageSpan& span : pages)
      if (TransferRefusal refusal = add(driver, span, ranges); refusal.refused()) return refusal;
    // piece() finds the range of a page by a binary search.
    std::ranges::sort(ranges, {}, &PageExport::Range::first);
    for (const PageExport::Range& range : ranges)
      if (TransferRefusal refusal = handle_of(driver, range, handles.emplace_back());
          refusal.refused())
        return refusal;
    made = PageExport(device, std::move(ranges));
    return {};
  }

  // The driver tells a buffer's number only in a context, and the copying threads have no context.
  Status still_there(const PageExport& made) const override {
    for (const PageExport::Range& range : made.ranges()) {
      const Result<cuda::ContextPtr> context = cuda::DeviceContext::of(range.first);
      if (!context.ok()) return context.status();
      const Driver& driver = (*context)->driver();
      const cuda::ContextScope scope(driver, (*context)->handle());  // mutation: export-context
      if (!scope.status().ok()) return scope.status();
      std::uint64_t id = 0;
      const cuda::ResultCode code =
          driver->pointer_get_attribute(&id, cuda::kPointerBufferId, address(range.first));
      if (code != cuda::kSuccess && code != cuda::kInvalidValue)
        return driver.status(code, "cuPointerGetAttribute");
      // A new allocation may have the same address. The buffer's number never repeats in a
      // process.
      if (code != cuda::kSuccess || id != range.id)  // mutation: export-same-memory
        return {Code::kNotFound, "the memory of the pages went without a notice"};
    }
    return {};
  }

 private:
  // Adds the allocation of the span, unless `ranges` has the allocation already.
  static TransferRefusal add(const Driver& driver, const PageSpan& span,
                             std::vector<PageExport::Range>& ranges) {
    DevicePtr base = 0;
    std::size_t bytes = 0;
    PageExport::Range range;
    cuda::ResultCode code = driver->mem_get_address_range(&base, &bytes, address(span.first));
    if (code == cuda::kSuccess)
      // Kept for still_there(), which tells this allocation from a later one at the same address.
      code = driver->pointer_get_attribute(&range.id, cuda::kPointerBufferId, base);
    if (code != cuda::kSuccess)
      return {TransferReason::kNotExportable, driver.status(code, "cuMemGetAddressRange").text()};
    if (const std::uint64_t offset = address(span.first) - base;
        offset > bytes || span.bytes > bytes - offset)
      return {TransferReason::kNotExportable,
              "the pages of a layer lie in more than one allocation"};
    range.first = reinterpret_cast<const std::byte*>(base);
    range.bytes = bytes;
    if (std::ranges::find(ranges, range.first, &PageExport::Range::first) != ranges.end())
      return {};
    // larderd keeps at most so many allocations for a session (shim/protocol/limits.h).
    if (ranges.size() == protocol::kMaxExports)
      return {TransferReason::kBound, "the KV pages lie in more than " +
                                          std::to_string(protocol::kMaxExports) + " allocations"};
    ranges.push_back(range);
    return {};
  }
};

}  // namespace

std::uint64_t PageExport::piece(const std::byte* page, std::uint64_t bytes) const {
  const auto after = std::ranges::upper_bound(ranges_, page, {}, &Range::first);
  if (after == ranges_.begin()) return protocol::kNoPiece;
  const Range& range = *std::prev(after);
  const auto offset = static_cast<std::uint64_t>(page - range.first);
  if (offset > range.bytes || bytes > range.bytes - offset) return protocol::kNoPiece;
  return protocol::make_piece(static_cast<std::uint64_t>(std::prev(after) - ranges_.begin()),
                              offset);
}

const MemoryExporter& cuda_exporter() {
  static const CudaExporter exporter;
  return exporter;
}

}  // namespace larder::copy
