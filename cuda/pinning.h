// Pinning: the registered part of the arena, as one device can copy from and to it directly
// (registration.h). Copies of other slots go through staging memory: for good, if the driver
// refuses the registration.
//
// Thread-safe. The destructor of the last Pinning of a memory takes the registration back, and so
// waits for the GPU.
#pragma once

#include <memory>
#include <span>

#include "cuda/copy_engine.h"
#include "cuda/device_range.h"
#include "cuda/registration.h"

namespace larder::copy::cuda {

class Pinning final : public ReadyMemory {
 public:
  // `memory` and `file` outlive the Pinning; `memory` is a mapping of `file`, or `file` is -1.
  // Throws std::system_error where no thread can be made.
  Pinning(ContextPtr context, std::span<std::byte> memory, Log log,
          const RegistrationOptions& options = {}, int file = -1);
  ~Pinning() override;
  void present(std::uint64_t bytes) override { registration_->present(bytes); }
  void take_back_slowly() override { registration_->take_back_slowly(); }

  // The device's addresses of these bytes. Empty: a part is not registered.
  DeviceRange device(std::span<const std::byte> bytes) const;
  std::uint64_t ready_bytes() const override;
  const std::byte* start() const { return registration_->memory().data(); }
  // Whether registration has ended for good.
  bool gave_up() const { return view_.ended; }
  // Whether the kind of GPU or container forbids registration. Kernels would find any pinned memory
  // far away there.
  bool not_allowed() const { return view_.not_allowed; }

 private:
  const std::shared_ptr<Registration> registration_;
  Registration::View view_;
};

}  // namespace larder::copy::cuda
