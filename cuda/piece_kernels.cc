#include "cuda/piece_kernels.h"

#include <algorithm>

namespace larder::copy::cuda {

// KERNEL_IMAGE is the file that nvcc wrote.
#if defined(KERNEL_IMAGE)
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden larder_kernel_image\n"
    "larder_kernel_image: .incbin \"" KERNEL_IMAGE
    "\"\n"
    ".hidden larder_kernel_image_end\n"
    "larder_kernel_image_end:\n"
    ".popsection\n");
extern "C" const std::byte larder_kernel_image[], larder_kernel_image_end[];

std::span<const std::byte> built_in_kernels() {
  return {larder_kernel_image, larder_kernel_image_end};
}
#else
std::span<const std::byte> built_in_kernels() {
  return {};
}
#endif

Result<std::unique_ptr<PieceKernels>> PieceKernels::load(ContextPtr context, std::span<const std::byte> image) {
  const Driver& driver = context->driver();
  const ContextScope scope(driver, context->handle());
  if (!scope.status().ok()) return scope.status();
  Handle module = nullptr;
  if (Status status = driver.status(driver->module_load_data(&module, image.data()), "cuModuleLoadData"); !status.ok())
    return status;
  std::unique_ptr<PieceKernels> kernels(new PieceKernels(std::move(context), module));
  for (const auto& [move, name] : {std::pair(Move::kGather, "larder_gather"), std::pair(Move::kScatter, "larder_scatter"),
                                   std::pair(Move::kDigest, "larder_digest")})
    if (Status status =
            driver.status(driver->module_get_function(&kernels->functions_[static_cast<std::size_t>(move)], module, name),
                          "cuModuleGetFunction");
        !status.ok())
      return status;
  return kernels;
}

PieceKernels::~PieceKernels() {
  const ContextScope scope(context_->driver(), context_->handle());
  if (scope.status().ok()) context_->driver()->module_unload(module_);
}

Status PieceKernels::launch(Move move, const MoveJob& job, unsigned blocks, Handle stream) const {
  const Driver& driver = context_->driver();
  const std::uint64_t units = (job.piece_bytes + kUnitBytes - 1) / kUnitBytes * job.piece_count;
  const auto wanted = static_cast<unsigned>(std::min<std::uint64_t>(blocks, (units + kWarpsPerBlock - 1) / kWarpsPerBlock));
  MoveJob copy = job;
  void* parameters[] = {&copy};
  return driver.status(driver->launch_kernel(functions_[static_cast<std::size_t>(move)], wanted, 1, 1, kLanes * kWarpsPerBlock, 1,
                                             1, 0, stream, parameters, nullptr),
                       "cuLaunchKernel");
}

}  // namespace larder::copy::cuda
