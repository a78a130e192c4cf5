#include "cuda/pinning.h"

#include <algorithm>

namespace larder::copy::cuda {

Pinning::Pinning(ContextPtr context, std::span<std::byte> memory, Log log,
                 const RegistrationOptions& options, int file)
    : registration_(Registration::of(memory, file, options)),
      view_(std::move(context), std::move(log), registration_->slices()) {
  // Last: from here on the thread of the registration fills the view.
  registration_->join(view_);
}

Pinning::~Pinning() {
  registration_->leave(view_);
}

DeviceRange Pinning::device(std::span<const std::byte> bytes) const {
  const std::span<std::byte> memory = registration_->memory();
  if (bytes.empty() || bytes.data() < memory.data() ||
      bytes.data() + bytes.size() > memory.data() + memory.size())
    return {};
  const std::size_t slice_bytes = registration_->slice_bytes();
  auto offset = static_cast<std::size_t>(bytes.data() - memory.data());
  const std::size_t end = offset + bytes.size();
  // Slices become ready in order, so one number tells about all bytes before.
  if ((end - 1) / slice_bytes >= view_.ready) return {};  // mutation: registered-alone
  DeviceRange range;
  while (offset < end) {
    // Each slice is a registration of its own, with an address of its own on the device.
    const std::size_t here =
        std::min(end - offset, slice_bytes - offset % slice_bytes);  // mutation: slice-border
    range.add(view_.devices[offset / slice_bytes] + offset % slice_bytes, here);
    offset += here;
  }
  return range;
}

// The last slice may be shorter, so the sum of slices can exceed the memory.
std::uint64_t Pinning::ready_bytes() const {
  return std::min(view_.ready * registration_->slice_bytes(), registration_->memory().size());
}

}  // namespace larder::copy::cuda
