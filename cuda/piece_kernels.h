// PieceKernels: the copy kernels as loaded into one context. Thread-safe; immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cuda/device_context.h"
#include "cuda/move_pieces.cuh"

namespace larder::copy::cuda {

// Machine code, each for a kind of processor, the newest first, and PTX for all others last.
using KernelImages = std::span<const std::span<const std::byte>>;

// What NVIDIA's compiler made of piece_kernels.cu. Empty where the build had none.
KernelImages built_in_kernels();

class PieceKernels {
 public:
  // The first of them that the driver takes. REQUIRES: `images` is not empty.
  static Result<std::unique_ptr<PieceKernels>> load(ContextPtr context, KernelImages images);
  ~PieceKernels();
  PieceKernels(const PieceKernels&) = delete;
  PieceKernels& operator=(const PieceKernels&) = delete;

  // Queues a move on at most `blocks` multiprocessors. REQUIRES: the context is current.
  Status launch(Move move, const MoveJob& job, unsigned blocks, Handle stream) const;

 private:
  PieceKernels(ContextPtr context, Handle module) : context_(std::move(context)), module_(module) {}
  const ContextPtr context_;
  const Handle module_;
  Handle functions_[3] = {};
};

}  // namespace larder::copy::cuda
