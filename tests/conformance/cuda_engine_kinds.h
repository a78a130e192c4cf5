// The kinds of CUDA's engine, over any driver: its two ways, and without kernels; with registered
// slots, and with staging memory.
#pragma once

#include <stdexcept>

#include "cuda/cuda_copy_engine.h"
#include "tests/conformance/copy_engine_under_test.h"
#include "tests/eventually.h"

namespace larder::copy::testing_support {

struct CudaKind {
  std::string name;
  cuda::Method method;
  bool kernels;
  bool pinned;  // the slot; else staging memory is used
  bool scattered =
      // the slot is registered in slices that are no neighbours for the device: a kernel has no
      // single address for the slot
      false;
};

inline std::vector<CudaKind> cuda_kinds() {
  std::vector<CudaKind> all;
  for (const bool pinned : {true, false}) {
    const std::string where = pinned ? "" : "_staged";
    all.push_back({"cuda_kernel" + where, cuda::Method::kKernel, true, pinned});
    all.push_back({"cuda_batch" + where, cuda::Method::kBatch, true, pinned});
    all.push_back({"cuda_without_kernels" + where, cuda::Method::kAuto, false, pinned});
  }
  return all;
}

class CudaBox : public EngineBox {
 public:
  const CopyEngine& engine() const override { return *engine_; }
  std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> slot) override {
    if (!pinned_) return nullptr;
    std::unique_ptr<ReadyMemory> ready = engine_->make_ready(slot);
    ready->present(slot.size());
    if (!test::eventually([&] { return engine_->is_pinned(slot); }))
      throw std::runtime_error("the slot was not registered");
    return ready;
  }

 protected:
  explicit CudaBox(const CudaKind& kind) : pinned_(kind.pinned) {}
  // smaller than most pieces, and no multiple of their sizes
  static constexpr std::size_t kScatteredSlice = 12 << 10;
  void make_engine(const CudaKind& kind, const std::byte* page, cuda::KernelImages kernels) {
    cuda::CudaOptions options;
    options.method = kind.method;
    options.calibrate_strategies = {};
    options.staging_bytes = 24 << 10;
    if (kind.scattered) options.registration.slice_bytes = kScatteredSlice;
    options.kernels = kind.kernels ? kernels : cuda::KernelImages();
    engine_ = cuda::CudaCopyEngine::make(page, options).value();
  }
  void drop_engine() { engine_.reset(); }

 private:
  const bool pinned_;
  std::unique_ptr<cuda::CudaCopyEngine> engine_;
};

}  // namespace larder::copy::testing_support
