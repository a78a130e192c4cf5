// The questions of an engine's exporter and of larderd's importer to the driver, on threads without
// a context.
#include "cuda/memory_export.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <thread>

#include "cuda/memory_import.h"
#include "tests/cuda/fake_driver/fake_driver.h"

namespace larder::copy {
namespace {

class MemoryExportTest : public testing::Test {
 protected:
  ~MemoryExportTest() override { fake_cuda::reset(); }
  PageExport exported(std::byte* first, std::uint64_t bytes) {
    PageExport made;
    const PageSpan span{first, bytes};
    const TransferRefusal refusal = cuda_exporter().take({&span, 1}, made, handles_);
    EXPECT_FALSE(refusal.refused()) << refusal.text;
    return made;
  }
  // On a thread like one that copies.
  static Code asked(const PageExport& made) {
    Code code = Code::kInternal;
    std::thread([&] { code = cuda_exporter().still_there(made).code(); }).join();
    return code;
  }
  std::vector<MemoryHandle> handles_;
};

TEST_F(MemoryExportTest, ThreadWithoutContextSeesPresentMemory) {
  for (const int device : {0, 1})
    EXPECT_EQ(asked(exported(fake_cuda::allocate(4096, false, device), 4096)), Code::kOk);
}

TEST_F(MemoryExportTest, FreedOrReplacedMemoryIsReportedGone) {
  std::byte* const by_hand = fake_cuda::map_by_hand(64 << 10);
  const PageExport made = exported(by_hand, 64 << 10);
  EXPECT_EQ(asked(made), Code::kOk);
  fake_cuda::unmap_by_hand(by_hand);
  EXPECT_EQ(asked(made), Code::kNotFound);
  fake_cuda::map_again(by_hand);
  EXPECT_EQ(asked(made), Code::kNotFound);
  std::byte* const allocated = fake_cuda::allocate(4096);
  const PageExport freed = exported(allocated, 4096);
  fake_cuda::free_unasked(allocated);
  EXPECT_EQ(asked(freed), Code::kNotFound);
}

TEST_F(MemoryExportTest, DriverFailureLeavesTheMemoryStateUnknown) {
  const PageExport made = exported(fake_cuda::allocate(4096), 4096);
  // After the questions for the place and the context.
  fake_cuda::fail("cuPointerGetAttribute", 3, 999);
  EXPECT_EQ(asked(made), Code::kUnavailable);
}

// The context takes a second and GPU memory, so it exists before the first engine asks.
TEST_F(MemoryExportTest, ImporterCreatesAContextOnEachVisibleGpu) {
  ::setenv("FAKE_CUDA_DEVICES", "2", 1);
  {
    const std::unique_ptr<MemoryImporter> importer = cuda_importer();
    importer->prepare();
    EXPECT_EQ(fake_cuda::counters().retained, 2);
  }
  EXPECT_EQ(fake_cuda::counters().retained, 0);
  ::setenv("FAKE_CUDA_DEVICES", "0", 1);
  cuda_importer()->prepare();
  EXPECT_EQ(fake_cuda::counters().retained, 0) << "no GPU is none";
  ::unsetenv("FAKE_CUDA_DEVICES");
}

// Otherwise larderd would take the one context of the GPU before the engine.
// covers F-035
TEST_F(MemoryExportTest, ImporterCreatesNoContextOnExclusiveGpu) {
  ::setenv("FAKE_CUDA_COMPUTE_MODE", "3", 1);
  const std::unique_ptr<MemoryImporter> importer = cuda_importer();
  importer->prepare();
  ::unsetenv("FAKE_CUDA_COMPUTE_MODE");
  EXPECT_EQ(fake_cuda::counters().retained, 0);
}

// Memory of a legacy handle names its context, which ends with the last retain.
TEST_F(MemoryExportTest, ImportedMemoryEngineKeepsItsContext) {
  class Imported final : public ImportedMemory {
   public:
    std::span<std::byte> bytes() const override { return bytes_; }

   private:
    const std::span<std::byte> bytes_{fake_cuda::allocate(4096), 4096};
  };
  {
    const std::unique_ptr<MemoryImporter> importer = cuda_importer();
    const auto engine = importer->engine(Imported(), [](std::string_view, std::string_view) {});
    ASSERT_TRUE(engine.ok()) << engine.status().text();
    EXPECT_GE(fake_cuda::counters().retained, 1);
  }
  EXPECT_EQ(fake_cuda::counters().retained, 0);
}

}  // namespace
}  // namespace larder::copy
