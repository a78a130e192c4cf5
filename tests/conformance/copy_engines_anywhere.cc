// The engines without a GPU: the host's, by each of its loops, and CUDA's over the fake driver.
#include "cuda/host_copy_engine.h"
#include "tests/conformance/cuda_engine_kinds.h"
#include "tests/cuda/device_chunk.h"
#include "tests/cuda/fake_driver/fake_driver.h"

namespace larder::copy::testing_support {
namespace {

class HostMemory final : public PageMemory {
 public:
  explicit HostMemory(std::size_t bytes) : bytes_(bytes) {}
  std::byte* pages() override { return bytes_.data(); }
  std::byte* image() override { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

class HostBox final : public EngineBox {
 public:
  explicit HostBox(const HostLoop& loop) : engine_(loop) {}
  const CopyEngine& engine() const override { return engine_; }
  std::unique_ptr<PageMemory> make_pages(std::size_t bytes) override {
    return std::make_unique<HostMemory>(bytes);
  }
  std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte>) override { return nullptr; }

 private:
  const HostCopyEngine engine_;
};

class FakeMemory final : public PageMemory {
 public:
  explicit FakeMemory(std::size_t bytes) : pages_(fake_cuda::allocate(bytes)) {}
  std::byte* pages() override { return pages_; }
  std::byte* image() override { return fake_cuda::view(pages_); }

 private:
  std::byte* const pages_;
};

class FakeBox final : public CudaBox {
 public:
  explicit FakeBox(const CudaKind& kind) : CudaBox(kind) {
    // Like a para-virtual GPU: a copy that names registered memory by the host's address fails.
    if (kind.scattered) fake_cuda::have(132, false);
    if (kind.scattered) fake_cuda::scatter_registrations();
    make_engine(kind, fake_cuda::allocate(1), fake_kernels());
  }
  ~FakeBox() override {
    drop_engine();
    fake_cuda::reset();
  }
  std::unique_ptr<PageMemory> make_pages(std::size_t bytes) override {
    return std::make_unique<FakeMemory>(bytes);
  }
  bool begin_capture() override {
    fake_cuda::begin_capture(captured_);
    return true;
  }
  bool end_capture() override { return fake_cuda::end_capture(captured_); }

 private:
  void* const captured_ = fake_cuda::make_stream();
};

}  // namespace

std::vector<EngineKind> engine_kinds() {
  std::vector<EngineKind> all;
  for (const HostLoop* loop : host_loops())
    all.push_back({loop->name, [loop](std::string&) { return std::make_unique<HostBox>(*loop); }});
  std::vector<CudaKind> kinds = cuda_kinds();
  for (CudaKind kind : cuda_kinds())
    if (kind.pinned) {
      kind.name += "_scattered";
      kind.scattered = true;
      kinds.push_back(kind);
    }
  for (const CudaKind& kind : kinds)
    all.push_back({kind.name, [kind](std::string&) { return std::make_unique<FakeBox>(kind); }});
  return all;
}

}  // namespace larder::copy::testing_support
