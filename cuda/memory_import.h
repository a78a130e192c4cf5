// MemoryImporter: memory of another process's device, opened here, and the copy engine of it. What larderd needs to copy itself (transfer: sidecar).
//
// Thread-safe. Every call may take as long as a driver takes (9 ms for a handle, seconds for the first look): not on the event loop's thread.
#pragma once

#include <memory>
#include <span>

#include "cuda/copy_engine.h"
#include "cuda/memory_handle.h"

namespace larder::copy {

// Open until it goes: the last copy of it has ended before. Owned by one thread at a time.
class ImportedMemory {
 public:
  virtual ~ImportedMemory() = default;
  // Device addresses: only a copy engine may use them.
  virtual std::span<std::byte> bytes() const = 0;
};

class MemoryImporter {
 public:
  virtual ~MemoryImporter() = default;
  // Makes a context on each GPU that this process sees, before the first engine asks: that takes a second, and some 0.5 GB of the GPU, which an engine that starts
  // later then reckons with. None on a GPU whose compute mode is not the default one, and nothing where there is no GPU; look() says why.
  virtual void prepare() {}
  // Whether memory of that device can be opened here at all.
  virtual TransferRefusal look(const DeviceId& device) = 0;
  // kNotOpened, kSize. REQUIRES: look() did not refuse.
  virtual TransferRefusal open(const DeviceId& device, MemoryHandle handle, std::unique_ptr<ImportedMemory>& opened) = 0;
  // Copies in such memory by the device's copy engines alone: kernels of two processes would take turns. `memory` was opened on that device. Throws std::bad_alloc.
  virtual Result<std::unique_ptr<CopyEngine>> engine(const ImportedMemory& memory, Log log) = 0;
};

// libcuda.so.1, which it loads at the first look.
std::unique_ptr<MemoryImporter> cuda_importer();

}  // namespace larder::copy
