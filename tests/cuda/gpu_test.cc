// On a real GPU: every way stores the same bytes as the host's engine, loads them again, and finds
// damage. Skipped on a machine without a GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "cuda/cuda_copy_engine.h"
#include "shim/protocol/checksum.h"
#include "tests/cuda/real_device.h"
#include "tests/eventually.h"

namespace larder::copy::cuda {
namespace {

struct Way {
  const char* name;
  Method method;
  bool kernels, pinned;
};

void PrintTo(const Way& strategy, std::ostream* out) {
  *out << strategy.name;
}

class GpuTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    std::string why;
    device_ = testing_support::RealDevice::open(why);
    if (device_ == nullptr) GTEST_SKIP() << why;
    if (GetParam().kernels && built_in_kernels().empty())
      GTEST_SKIP() << "built without NVIDIA's compiler (make deps-cuda)";
  }
  std::unique_ptr<testing_support::RealDevice> device_;
};

TEST_P(GpuTest, StoresAndLoadsLikeTheHostEngine) {
  const Way strategy = GetParam();
  for (const std::uint64_t piece_bytes :
       {1000, 4096, 8192, 16384, 18432, 32768, 65536, 131072, 2 << 20, 4 << 20}) {
    SCOPED_TRACE(piece_bytes);
    constexpr std::size_t kPieces = 7;
    std::vector<std::byte> bytes(piece_bytes * kPieces), zeros(piece_bytes * kPieces);
    std::mt19937_64 random(piece_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    std::byte* const pages = device_->allocate(2 * bytes.size());
    ASSERT_NE(pages, nullptr);
    std::vector<std::byte*> pieces;
    for (std::size_t i = 0; i < kPieces; ++i) pieces.push_back(pages + 2 * i * piece_bytes);
    const auto write = [&](const std::vector<std::byte>& what) {
      for (std::size_t i = 0; i < kPieces; ++i)
        ASSERT_TRUE(device_->write(pieces[i], what.data() + i * piece_bytes, piece_bytes));
    };
    write(bytes);

    const std::uint64_t slot_bytes = protocol::slot_bytes(bytes.size(), piece_bytes);
    const std::unique_ptr<std::byte, decltype(&std::free)> memory(
        static_cast<std::byte*>(std::aligned_alloc(4096, slot_bytes)), &std::free);
    std::memset(memory.get(), 0, slot_bytes);
    const std::span<std::byte> slot(memory.get(), slot_bytes);
    CudaOptions options;
    options.method = strategy.method;
    options.calibrate_strategies = std::chrono::seconds(10);  // the time is no matter here
    if (!strategy.kernels) options.kernels = {};
    options.log = [](std::string_view level, std::string_view text) {
      // The measurement logs at level info.
      if (level != "info") ADD_FAILURE() << level << " " << text;
    };
    const std::unique_ptr<CudaCopyEngine> engine = CudaCopyEngine::make(pages, options).value();
    std::unique_ptr<ReadyMemory> ready;
    if (strategy.pinned) {
      ready = engine->make_ready(slot);
      ready->present(slot_bytes);
      ASSERT_TRUE(test::eventually([&] { return engine->is_pinned(slot); }));
    }

    const std::shared_ptr<const Fence> fence = engine->fence(nullptr).value();
    const Result<std::uint64_t> root = engine->store({pieces, piece_bytes, fence.get()}, slot);
    ASSERT_TRUE(root.ok()) << root.status().to_string();
    EXPECT_EQ(std::memcmp(slot.data(), bytes.data(), bytes.size()), 0);
    std::vector<std::byte> host_slot(slot_bytes + 4096);
    std::byte* const aligned =
        host_slot.data() + (4096 - reinterpret_cast<std::uintptr_t>(host_slot.data()) % 4096);
    std::vector<std::byte*> host_pieces;
    for (std::size_t i = 0; i < kPieces; ++i) host_pieces.push_back(bytes.data() + i * piece_bytes);
    EXPECT_EQ(*root,
              host_copy_engine().store({host_pieces, piece_bytes}, {aligned, slot_bytes}).value());
    EXPECT_EQ(std::memcmp(slot.data(), aligned, slot_bytes), 0) << "with its table";

    write(zeros);
    ASSERT_TRUE(engine->load(slot, *root, {pieces, piece_bytes}).ok());
    std::vector<std::byte> back(piece_bytes);
    for (std::size_t i = 0; i < kPieces; ++i) {
      ASSERT_TRUE(device_->read(back.data(), pieces[i], piece_bytes));
      EXPECT_EQ(std::memcmp(back.data(), bytes.data() + i * piece_bytes, piece_bytes), 0)
          << "piece " << i;
    }
    slot[bytes.size() / 2] ^= std::byte{4};
    EXPECT_EQ(engine->load(slot, *root, {pieces, piece_bytes}).code(), Code::kDataLoss);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuTest,
                         testing::Values(Way{"auto", Method::kAuto, true, true},
                                         Way{"kernel", Method::kKernel, true, true},
                                         Way{"batch", Method::kBatch, true, true},
                                         Way{"kernel_staged", Method::kKernel, true, false},
                                         Way{"batch_staged", Method::kBatch, true, false},
                                         Way{"without_kernels", Method::kBatch, false, true}),
                         [](const auto& strategy) { return strategy.param.name; });

}  // namespace
}  // namespace larder::copy::cuda
