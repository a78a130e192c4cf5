// CUDA's engine on the GPU of this machine: the same suite, as a part of gpu_test.
#include <new>
#include <stdexcept>

#include "tests/conformance/cuda_engine_kinds.h"
#include "tests/cuda/real_device.h"

namespace larder::copy::testing_support {
namespace {

class DeviceMemory final : public PageMemory {
 public:
  DeviceMemory(RealDevice& device, std::size_t bytes)
      : device_(device), pages_(device.allocate(bytes)), image_(bytes) {
    if (pages_ == nullptr) throw std::bad_alloc();
  }
  ~DeviceMemory() override { device_.release(pages_); }
  std::byte* pages() override { return pages_; }
  std::byte* image() override { return image_.data(); }
  void write() override {
    if (!device_.write(pages_, image_.data(), image_.size()))
      throw std::runtime_error("the pages cannot be written");
  }
  void read() override {
    if (!device_.read(image_.data(), pages_, image_.size()))
      throw std::runtime_error("the pages cannot be read");
  }

 private:
  RealDevice& device_;
  std::byte* const pages_;
  std::vector<std::byte> image_;
};

class DeviceBox final : public CudaBox {
 public:
  DeviceBox(std::unique_ptr<RealDevice> device, const CudaKind& kind)
      : CudaBox(kind), device_(std::move(device)) {
    make_engine(kind, device_->allocate(4096), cuda::built_in_kernels());
  }
  ~DeviceBox() override { drop_engine(); }
  std::unique_ptr<PageMemory> make_pages(std::size_t bytes) override {
    return std::make_unique<DeviceMemory>(*device_, bytes);
  }
  bool begin_capture() override { return (captured_ = device_->begin_capture()) != nullptr; }
  bool end_capture() override { return device_->end_capture(captured_); }

 private:
  const std::unique_ptr<RealDevice> device_;
  cuda::Handle captured_ = nullptr;
};

}  // namespace

std::vector<EngineKind> engine_kinds() {
  std::vector<EngineKind> all;
  for (const CudaKind& kind : cuda_kinds())
    all.push_back({kind.name, [kind](std::string& why) -> std::unique_ptr<EngineBox> {
                     std::unique_ptr<RealDevice> device = RealDevice::open(why);
                     if (device == nullptr) return nullptr;
                     if (kind.kernels && cuda::built_in_kernels().empty()) {
                       why = "built without NVIDIA's compiler (make deps-cuda)";
                       return nullptr;
                     }
                     return std::make_unique<DeviceBox>(std::move(device), kind);
                   }});
  return all;
}

}  // namespace larder::copy::testing_support
