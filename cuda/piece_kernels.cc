#include "cuda/piece_kernels.h"

#include <algorithm>

namespace larder::copy::cuda {

// KERNEL_IMAGES is the common start of the image files' names. PTX is a text that ends with a 0.
// .incbin and not an array in C++: the compiler need not parse the images, and .rodata is shared
// by all processes.
#if defined(KERNEL_IMAGES)
#define LARDER_IMAGE(name)                                       \
  __asm__(                                                       \
      ".pushsection .rodata\n"                                   \
      ".balign 64\n"                                             \
      ".hidden larder_kernels_" #name                            \
      "\n"                                                       \
      "larder_kernels_" #name ": .incbin \"" KERNEL_IMAGES #name \
      "\"\n"                                                     \
      ".hidden larder_kernels_" #name                            \
      "_end\n"                                                   \
      "larder_kernels_" #name                                    \
      "_end: .byte 0\n"                                          \
      ".popsection\n");                                          \
  extern "C" const std::byte larder_kernels_##name[], larder_kernels_##name##_end[]
// Hidden symbols, because exports.map is the whole interface of the library.
LARDER_IMAGE(sm_100);
LARDER_IMAGE(sm_90);
LARDER_IMAGE(sm_89);
LARDER_IMAGE(sm_80);
LARDER_IMAGE(compute_80);

KernelImages built_in_kernels() {
  static const std::span<const std::byte> all[] = {
      {larder_kernels_sm_100, larder_kernels_sm_100_end},
      {larder_kernels_sm_90, larder_kernels_sm_90_end},
      {larder_kernels_sm_89, larder_kernels_sm_89_end},
      {larder_kernels_sm_80, larder_kernels_sm_80_end},
      {larder_kernels_compute_80, larder_kernels_compute_80_end}};
  return all;
}
#else
KernelImages built_in_kernels() {
  return {};
}
#endif

namespace {

// The driver refuses images for other processors, so the first success is the right one.
Status load_one(const Driver& driver, KernelImages images, Handle& module) {
  Status status;
  for (const std::span<const std::byte> image : images) {
    status = driver.status(driver->module_load_data(&module, image.data()), "cuModuleLoadData");
    // Lack of memory would meet the next image as well, and the text should name the memory.
    if (status.code() != Code::kUnavailable) return status;
  }
  return status;
}

}  // namespace

Result<std::unique_ptr<PieceKernels>> PieceKernels::load(ContextPtr context, KernelImages images) {
  const Driver& driver = context->driver();
  const ContextScope scope(driver, context->handle());
  if (!scope.status().ok()) return scope.status();
  Handle module = nullptr;
  if (Status status = load_one(driver, images, module); !status.ok()) return status;
  std::unique_ptr<PieceKernels> kernels(new PieceKernels(std::move(context), module));
  for (const auto& [move, name] :
       {std::pair(Move::kGather, "larder_gather"), std::pair(Move::kScatter, "larder_scatter"),
        std::pair(Move::kDigest, "larder_digest")})
    if (Status status =
            driver.status(driver->module_get_function(
                              &kernels->functions_[static_cast<std::size_t>(move)], module, name),
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
  // A small job gets fewer multiprocessors than it may have: idle blocks would only take
  // processors from the model.
  const auto wanted = static_cast<unsigned>(
      std::min<std::uint64_t>(blocks, (units + kWarpsPerBlock - 1) / kWarpsPerBlock));
  MoveJob copy = job;
  void* parameters[] = {&copy};
  return driver.status(
      driver->launch_kernel(functions_[static_cast<std::size_t>(move)], wanted, 1, 1,
                            kLanes * kWarpsPerBlock, 1, 1, 0, stream, parameters, nullptr),
      "cuLaunchKernel");
}

}  // namespace larder::copy::cuda
