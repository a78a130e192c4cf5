// PieceKernels: the copy kernels, loaded into one context. Thread-safe; immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cuda/device_context.h"
#include "cuda/move_pieces.cuh"

namespace larder::copy::cuda {

// Machine code for each kind of processor, the newest first, and last PTX for all other processors.
using KernelImages = std::span<const std::span<const std::byte>>;

// The images of piece_kernels.cu from NVIDIA's compiler (compile_kernels.py). Empty if the build
// had no compiler.
//
// By NVIDIA's rules, drivers from 525 on take the machine code. The machine code for sm_100 and the
// PTX need a driver from 570 on (CUDA 12.8). If a driver refuses all images, the engine logs that
// and works as without kernels.
KernelImages built_in_kernels();

class PieceKernels {
 public:
  // Loads the first image that the driver takes. REQUIRES: `images` is not empty.
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
