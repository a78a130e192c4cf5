// PieceKernels: the copy kernels as loaded into one context. Thread-safe; immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cuda/device_context.h"
#include "cuda/move_pieces.cuh"

namespace larder::copy::cuda {

// What nvcc made of piece_kernels.cu, for all processors that are served. Empty where the build had no nvcc.
std::span<const std::byte> built_in_kernels();

class PieceKernels {
 public:
  // REQUIRES: `image` is not empty.
  static Result<std::unique_ptr<PieceKernels>> load(ContextPtr context, std::span<const std::byte> image);
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
