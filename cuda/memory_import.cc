#include "cuda/memory_import.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "cuda/cuda_copy_engine.h"

namespace larder::copy {
namespace {

using cuda::ContextPtr;
using cuda::ContextScope;
using cuda::DevicePtr;
using cuda::Driver;
using protocol::TransferReason;

TransferRefusal not_opened(const Driver& driver, cuda::ResultCode code, const char* function) {
  return {TransferReason::kNotOpened,
          "the engine's memory cannot be opened: " + driver.status(code, function).text()};
}

class OpenedHandle final : public ImportedMemory {
 public:
  OpenedHandle(ContextPtr context, DevicePtr base, std::uint64_t size)
      : context_(std::move(context)), base_(base), size_(size) {}
  ~OpenedHandle() override {
    const ContextScope scope(context_->driver(), context_->handle());
    if (scope.status().ok()) context_->driver()->ipc_close_mem_handle(base_);
  }
  std::span<std::byte> bytes() const override {
    return {reinterpret_cast<std::byte*>(base_), size_};
  }

 private:
  const ContextPtr context_;
  const DevicePtr base_;
  const std::uint64_t size_;
};

// A mapping made by this process. The destructor undoes the steps that succeeded.
class MappedDescriptor final : public ImportedMemory {
 public:
  MappedDescriptor(ContextPtr context, std::uint64_t size)
      : context_(std::move(context)), size_(size) {}
  ~MappedDescriptor() override {
    const Driver& driver = context_->driver();
    const ContextScope scope(driver, context_->handle());
    if (!scope.status().ok()) return;
    // In the reverse order of map(): an address range is freed only without a mapping.
    if (mapped_) driver->mem_unmap(base_, size_);
    if (base_ != 0) driver->mem_address_free(base_, size_);
  }
  // REQUIRES: the context is current.
  TransferRefusal map(int fd, int device) {
    const Driver& driver = context_->driver();
    cuda::AllocationHandle allocation = 0;
    cuda::ResultCode code = driver->mem_import_from_shareable_handle(
        &allocation, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
        cuda::kHandleTypeDescriptor);
    if (code != cuda::kSuccess) return not_opened(driver, code, "cuMemImportFromShareableHandle");
    // Only this process's address: the engine has the same memory under another one.
    code = driver->mem_address_reserve(&base_, size_, 0, 0, 0);
    if (code == cuda::kSuccess) code = driver->mem_map(base_, size_, 0, allocation, 0);
    mapped_ = code == cuda::kSuccess;
    driver->mem_release(allocation);  // the mapping keeps the allocation
    const cuda::AccessDescription access{{cuda::kLocationDevice, device}, cuda::kAccessReadWrite};
    if (code == cuda::kSuccess) code = driver->mem_set_access(base_, size_, &access, 1);
    // The driver refuses to map more bytes than the allocation has. The engine's word is never
    // trusted for a size.
    if (code == cuda::kInvalidValue)
      return {TransferReason::kSize, "the allocation is not as large as the engine says"};
    return code == cuda::kSuccess ? TransferRefusal() : not_opened(driver, code, "cuMemMap");
  }
  std::span<std::byte> bytes() const override {
    return {reinterpret_cast<std::byte*>(base_), size_};
  }

 private:
  const ContextPtr context_;
  DevicePtr base_ = 0;
  const std::uint64_t size_;
  bool mapped_ = false;
};

class CudaImporter final : public MemoryImporter {
 public:
  void prepare() override {
    const Result<const Driver*> driver = Driver::load();
    int count = 0;
    // Without a GPU larderd works all the same; the engine that asks hears the reason from look().
    if (!driver.ok() || !(*driver)->shares() || (**driver)->init(0) != cuda::kSuccess ||
        (**driver)->device_get_count(&count) != cuda::kSuccess)
      return;
    // open() reports a failure to the engine that asks.
    for (int ordinal = 0; ordinal < count; ++ordinal)
      if (is_for_all_processes(**driver, ordinal)) static_cast<void>(keep(**driver, ordinal));
  }

  TransferRefusal look(const DeviceId& device) override {
    int ordinal = 0;
    const Driver* driver = nullptr;
    return find(device, driver, ordinal);
  }

  TransferRefusal open(const DeviceId& device, MemoryHandle handle,
                       std::unique_ptr<ImportedMemory>& opened) override {
    int ordinal = 0;
    const Driver* driver = nullptr;
    // By UUID: the ordinals of two containers differ, and CUDA_VISIBLE_DEVICES changes the order.
    if (TransferRefusal refusal = find(device, driver, ordinal); refusal.refused()) return refusal;
    const Result<ContextPtr> context = cuda::DeviceContext::primary(*driver, ordinal);
    if (!context.ok()) return {TransferReason::kFailed, context.status().text()};
    const ContextScope scope(*driver, (*context)->handle());
    if (!scope.status().ok()) return {TransferReason::kFailed, scope.status().text()};
    if (handle.kind == protocol::MemoryKind::kDescriptor) {
      auto mapped = std::make_unique<MappedDescriptor>(*context, handle.size_bytes);
      if (TransferRefusal refusal = mapped->map(handle.fd.get(), ordinal); refusal.refused())
        return refusal;
      opened = std::move(mapped);
      return {};
    }
    cuda::IpcHandle named;
    std::copy(handle.bytes.begin(), handle.bytes.end(), std::begin(named.bytes));
    DevicePtr base = 0;
    if (const cuda::ResultCode code =
            (*driver)->ipc_open_mem_handle(&base, named, cuda::kIpcLazyPeerAccess);
        code != cuda::kSuccess)
      return not_opened(*driver, code, "cuIpcOpenMemHandle");
    // Before the check of the size: a refusal must close the handle again.
    auto held = std::make_unique<OpenedHandle>(*context, base, handle.size_bytes);
    DevicePtr start = 0;
    std::size_t there = 0;
    if ((*driver)->mem_get_address_range(&start, &there, base) != cuda::kSuccess || start != base ||
        there < handle.size_bytes)
      return {TransferReason::kSize, "the allocation has " + std::to_string(there) +
                                         " bytes, the engine reports " +
                                         std::to_string(handle.size_bytes)};
    opened = std::move(held);
    return {};
  }

  Result<std::unique_ptr<CopyEngine>> engine(const ImportedMemory& memory, Log log) override {
    cuda::CudaOptions options;
    // Kernels of two processes take turns on a GPU without MPS, so larderd's kernels would hold up
    // the model.
    options.method = cuda::Method::kBatch;
    options.kernels = {};
    options.log = std::move(log);
    Result<std::unique_ptr<cuda::CudaCopyEngine>> made =
        cuda::CudaCopyEngine::make(memory.bytes().data(), std::move(options));
    if (!made.ok()) return made.status();
    // Memory of a legacy handle names its context but does not keep the context alive.
    const Driver& driver = **Driver::load();
    int ordinal = 0;
    Status kept = driver.status(
        driver->pointer_get_attribute(&ordinal, cuda::kPointerDeviceOrdinal,
                                      reinterpret_cast<DevicePtr>(memory.bytes().data())),
        "cuPointerGetAttribute");
    if (kept.ok()) kept = keep(driver, ordinal);
    if (!kept.ok()) return kept;
    return std::unique_ptr<CopyEngine>(std::move(made).value());
  }

 private:
  // In the compute mode EXCLUSIVE_PROCESS a GPU has one context, which the engine needs.
  static bool is_for_all_processes(const Driver& driver, int ordinal) {
    int device = 0, mode = cuda::kComputeModeDefault;
    return driver->device_get(&device, ordinal) == cuda::kSuccess &&
           driver->device_get_attribute(&mode, cuda::kComputeMode, device) == cuda::kSuccess &&
           mode == cuda::kComputeModeDefault;
  }
  // Keeps the primary context until the importer is destroyed; copy engines live no longer.
  Status keep(const Driver& driver, int ordinal) {
    const std::lock_guard lock(mutex_);
    ContextPtr& kept = kept_[ordinal];
    if (kept != nullptr) return {};
    Result<ContextPtr> context = cuda::DeviceContext::primary(driver, ordinal);
    if (context.ok()) kept = std::move(context).value();
    return context.status();
  }
  static TransferRefusal find(const DeviceId& device, const Driver*& driver, int& ordinal) {
    const Result<const Driver*> loaded = Driver::load();
    if (!loaded.ok())
      return {loaded.status().code() == Code::kUnavailable ? TransferReason::kNoDriver
                                                           : TransferReason::kOldDriver,
              "larderd's container: " + loaded.status().text()};
    driver = *loaded;
    if (!driver->shares())
      return {TransferReason::kOldDriver, "libcuda.so.1 lacks functions that share memory"};
    int count = 0;
    cuda::ResultCode code = (*driver)->init(0);
    if (code == cuda::kSuccess) code = (*driver)->device_get_count(&count);
    if (code == cuda::kNoDevice || (code == cuda::kSuccess && count == 0))
      return {TransferReason::kNoDevice,
              "larderd sees no GPU: the container of larderd has no GPU"};
    if (code != cuda::kSuccess)
      return {TransferReason::kFailed, driver->status(code, "cuInit").text()};
    for (ordinal = 0; ordinal < count; ++ordinal) {
      int number = 0;
      cuda::DeviceUuid own;
      if ((*driver)->device_get(&number, ordinal) != cuda::kSuccess ||
          (*driver)->device_get_uuid(&own, number) != cuda::kSuccess)
        continue;
      if (std::equal(device.begin(), device.end(), std::begin(own.bytes))) return {};
    }
    return {TransferReason::kOtherDevice, "larderd sees " + std::to_string(count) + " GPU" +
                                              (count == 1 ? "" : "s") +
                                              ", and not the one that the engine's pages lie on"};
  }
  std::mutex mutex_;
  std::map<int, ContextPtr> kept_;  // by ordinal
};

}  // namespace

std::unique_ptr<MemoryImporter> cuda_importer() {
  return std::make_unique<CudaImporter>();
}

}  // namespace larder::copy
