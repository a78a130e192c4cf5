// MemoryImporter: opens device memory of another process and makes its copy engine. larderd uses
// the importer for `transfer: sidecar`.
//
// Thread-safe. A call takes as long as the driver takes (9 ms for a handle, seconds for the first
// look), so the event loop's thread must not call.
#pragma once

#include <memory>
#include <span>

#include "cuda/copy_engine.h"
#include "cuda/memory_handle.h"

namespace larder::copy {

// Memory that stays open until the destructor. REQUIRES of the destructor: the last copy has ended.
// Owned by one thread at a time.
class ImportedMemory {
 public:
  virtual ~ImportedMemory() = default;
  // Device addresses, for a copy engine only.
  virtual std::span<std::byte> bytes() const = 0;
};

class MemoryImporter {
 public:
  virtual ~MemoryImporter() = default;
  // Makes a context on each visible GPU before the first engine asks. A context takes a second and
  // about 0.5 GB of the GPU's memory; engines that start later account for this memory. Skips a GPU
  // in a compute mode other than the default. Without a GPU prepare() has no effect, and look()
  // gives the reason.
  virtual void prepare() {}
  // Whether this process can open memory of that device.
  virtual TransferRefusal look(const DeviceId& device) = 0;
  // Refuses with kNotOpened or kSize. REQUIRES: look() did not refuse.
  virtual TransferRefusal open(const DeviceId& device, MemoryHandle handle,
                               std::unique_ptr<ImportedMemory>& opened) = 0;
  // A copy engine for `memory`, which was opened on that device. The engine uses the device's copy
  // engines only, because kernels of two processes would take turns. Throws std::bad_alloc.
  virtual Result<std::unique_ptr<CopyEngine>> engine(const ImportedMemory& memory, Log log) = 0;
};

// The importer over libcuda.so.1. The first look loads the library.
std::unique_ptr<MemoryImporter> cuda_importer();

}  // namespace larder::copy
