// A chunk on the fake device and a slot for it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/cuda_copy_engine.h"
#include "shim/protocol/checksum.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/eventually.h"

namespace larder::copy::testing_support {

// Kernel images for the fake driver, which ignores their contents.
inline std::span<const std::span<const std::byte>> fake_kernels() {
  static const std::span<const std::byte> images[] = {std::as_bytes(std::span("an image")),
                                                      std::as_bytes(std::span("another"))};
  return images;
}

class DeviceChunk {
 public:
  DeviceChunk(std::uint64_t piece_bytes, std::size_t pieces, int on = 0)
      : piece_bytes_(piece_bytes),
        slot_bytes_(protocol::slot_bytes(piece_bytes * pieces, piece_bytes)),
        slot_(static_cast<std::byte*>(std::aligned_alloc(4096, slot_bytes_)), &std::free) {
    std::memset(slot_.get(), 0, slot_bytes_);
    for (std::size_t i = 0; i < pieces; ++i)
      pieces_.push_back(fake_cuda::allocate(piece_bytes, false, on));
  }

  void fill(int seed) {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      std::memset(fake_cuda::view(pieces_[i]), value(seed, i), piece_bytes_);
  }
  bool holds(int seed) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      for (std::uint64_t at = 0; at < piece_bytes_; ++at)
        if (fake_cuda::view(pieces_[i])[at] != static_cast<std::byte>(value(seed, i))) return false;
    return true;
  }
  // Waits until the whole slot is registered.
  void pin(const CopyEngine& engine) {
    const std::uint64_t before = fake_cuda::counters().registered_bytes;
    ready_ = engine.make_ready(slot());
    ready_->present(slot_bytes_);
    test::eventually([&] {
      return fake_cuda::counters().registered_bytes == before + slot_bytes_ &&
             ready_->ready_bytes() == slot_bytes_;
    });
  }
  PieceList list(const Fence* after = nullptr) const { return {pieces_, piece_bytes_, after}; }
  std::span<std::byte> slot() { return {slot_.get(), slot_bytes_}; }
  const std::byte* page() const { return pieces_[0]; }

 private:
  static int value(int seed, std::size_t piece) {
    return static_cast<int>((static_cast<std::size_t>(seed) * 31 + piece * 7 + 1) % 251);
  }
  const std::uint64_t piece_bytes_;
  const std::uint64_t slot_bytes_;
  const std::unique_ptr<std::byte, decltype(&std::free)> slot_;
  std::vector<std::byte*> pieces_;
  std::unique_ptr<ReadyMemory> ready_;
};

}  // namespace larder::copy::testing_support
