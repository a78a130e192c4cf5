// Pinning: the arena as one device can copy from and to it directly, as far as it is registered (registration.h).
//
// Until a slot is registered, and for ever where the driver refuses, copies of it go through staging memory. Thread-safe. The last one of a memory in this process
// takes the registration back: its destructor waits for that, and so for the GPU.
#pragma once

#include <memory>
#include <span>

#include "cuda/copy_engine.h"
#include "cuda/device_range.h"
#include "cuda/registration.h"

namespace larder::copy::cuda {

class Pinning final : public ReadyMemory {
 public:
  // `memory` and `file`, of which it is a mapping (or -1), outlive it. Throws std::system_error where no thread can be made.
  Pinning(ContextPtr context, std::span<std::byte> memory, Log log, const RegistrationOptions& options = {}, int file = -1);
  ~Pinning() override;
  void present(std::uint64_t bytes) override { registration_->present(bytes); }
  void take_back_slowly() override { registration_->take_back_slowly(); }

  // The device's addresses of these bytes. Empty: not all of them are registered.
  DeviceRange device(std::span<const std::byte> bytes) const;
  std::uint64_t ready_bytes() const override;
  const std::byte* start() const { return registration_->memory().data(); }
  // No longer, whatever comes.
  bool gave_up() const { return view_.ended; }
  // The kind of GPU or container does not allow it: kernels of ours would find pinned memory far away as well.
  bool not_allowed() const { return view_.not_allowed; }

 private:
  const std::shared_ptr<Registration> registration_;
  Registration::View view_;
};

}  // namespace larder::copy::cuda
