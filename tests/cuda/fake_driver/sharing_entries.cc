// The functions by which processes share memory: legacy handles, and allocations that are mapped by
// hand.
#include <optional>

#include "tests/cuda/fake_driver/contexts.h"
#include "tests/cuda/fake_driver/device.h"
#include "tests/cuda/fake_driver/entry.h"

namespace larder::fake_cuda {
namespace {

using namespace copy::cuda;

ResultCode mem_get_address_range(DevicePtr* base, std::size_t* bytes, DevicePtr address) {
  LARDER_BEGIN("cuMemGetAddressRange");
  const std::optional<Memory::Where> where = device().memory.where(address);
  if (!where) return copy::cuda::kNotFound;
  *base = where->base;
  *bytes = where->bytes;
  return kSuccess;
}

ResultCode ipc_get_mem_handle(IpcHandle* handle, DevicePtr address) {
  LARDER_BEGIN("cuIpcGetMemHandle");
  const std::optional<Memory::Where> where = device().memory.where(address);
  if (!where || !where->heap) return kInvalidValue;
  *handle = device().memory.name(*where);
  return kSuccess;
}

ResultCode ipc_open_mem_handle(DevicePtr* memory, IpcHandle handle, unsigned) {
  LARDER_BEGIN("cuIpcOpenMemHandle");
  return shared_memory().open(handle, current_device(), memory);
}

ResultCode ipc_close_mem_handle(DevicePtr memory) {
  LARDER_BEGIN_GIVING_BACK();
  return shared_memory().close(memory);
}

ResultCode mem_retain_allocation_handle(AllocationHandle* handle, void* address) {
  LARDER_BEGIN("cuMemRetainAllocationHandle");
  return shared_memory().retain(reinterpret_cast<DevicePtr>(address), handle);
}

ResultCode mem_release(AllocationHandle handle) {
  return shared_memory().release(handle);
}

ResultCode mem_export_to_shareable_handle(void* shared, AllocationHandle handle, int type,
                                          unsigned long long) {
  LARDER_BEGIN("cuMemExportToShareableHandle");
  return type == kHandleTypeDescriptor ? shared_memory().give(handle, static_cast<int*>(shared))
                                       : kInvalidValue;
}

ResultCode mem_import_from_shareable_handle(AllocationHandle* handle, void* shared, int type) {
  LARDER_BEGIN("cuMemImportFromShareableHandle");
  if (type != kHandleTypeDescriptor) return kInvalidValue;
  return shared_memory().import(static_cast<int>(reinterpret_cast<std::intptr_t>(shared)), handle);
}

ResultCode mem_address_reserve(DevicePtr* address, std::size_t bytes, std::size_t, DevicePtr,
                               unsigned long long) {
  LARDER_BEGIN("cuMemAddressReserve");
  return shared_memory().reserve(bytes, address);
}

ResultCode mem_address_free(DevicePtr address, std::size_t bytes) {
  return shared_memory().unreserve(address, bytes);
}

ResultCode mem_map(DevicePtr address, std::size_t bytes, std::size_t, AllocationHandle handle,
                   unsigned long long) {
  LARDER_BEGIN("cuMemMap");
  return shared_memory().map(address, bytes, handle);
}

ResultCode mem_unmap(DevicePtr address, std::size_t) {
  return shared_memory().unmap(address);
}

ResultCode mem_set_access(DevicePtr address, std::size_t, const AccessDescription* descriptions,
                          std::size_t count) {
  LARDER_BEGIN("cuMemSetAccess");
  if (count != 1 || descriptions->flags != kAccessReadWrite) return kInvalidValue;
  return shared_memory().set_access(address, descriptions->location.id);
}

}  // namespace

const Entries& sharing_entries() {
  static const Entries all{
      {"cuMemGetAddressRange", any(mem_get_address_range)},
      {"cuIpcGetMemHandle", any(ipc_get_mem_handle)},
      {"cuIpcOpenMemHandle", any(ipc_open_mem_handle)},
      {"cuIpcCloseMemHandle", any(ipc_close_mem_handle)},
      {"cuMemRetainAllocationHandle", any(mem_retain_allocation_handle)},
      {"cuMemRelease", any(mem_release)},
      {"cuMemExportToShareableHandle", any(mem_export_to_shareable_handle)},
      {"cuMemImportFromShareableHandle", any(mem_import_from_shareable_handle)},
      {"cuMemAddressReserve", any(mem_address_reserve)},
      {"cuMemAddressFree", any(mem_address_free)},
      {"cuMemMap", any(mem_map)},
      {"cuMemUnmap", any(mem_unmap)},
      {"cuMemSetAccess", any(mem_set_access)},
  };
  return all;
}

}  // namespace larder::fake_cuda

// Found by name only: the product makes no such memory. Each allocation is exportable.
extern "C" int cuMemGetAllocationGranularity(std::size_t* bytes, const void*, int) {
  *bytes = 64 << 10;
  return larder::copy::cuda::kSuccess;
}

extern "C" int cuMemCreate(larder::copy::cuda::AllocationHandle* handle, std::size_t bytes,
                           const void*, unsigned long long) {
  *handle = larder::fake_cuda::shared_memory().make(bytes);
  return larder::copy::cuda::kSuccess;
}
