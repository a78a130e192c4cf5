// The reasons why larderd does not copy: both ends name the reason, and every request is still
// served.
#include <filesystem>

#include "tests/cuda/transfer/transfer_fixture.h"

namespace larder::test {
namespace {

class ReasonTest : public TransferTest {
 protected:
  void expect_reason(const std::string& reason, const std::string& words,
                     const PageMemory& memory = kAllocated) {
    engine_ = engine_at(*larderd_, memory);
    EXPECT_TRUE(eventually([&] { return told("reason") == reason; }, 10'000))
        << told("reason") << "\n"
        << log_of(*engine_);
    EXPECT_NE(told("why").find(words), std::string::npos) << told("why");
    EXPECT_EQ(told("way"), "shim");
    // Also after the client's own look at a page. The look is over, but for a sanitizer larderd's
    // status orders no event here.
    EXPECT_FALSE(engine_->client->sidecar_copies());
    EXPECT_TRUE(served(*engine_, 0));
    EXPECT_FALSE(engine_->client->sidecar_copies());
    EXPECT_EQ(copied(*larderd_, "stores") + copied(*larderd_, "loads"), 0);
  }
  bool fell_back() {
    for (const char* place : {"0", "1", "2", "3"})
      if (larderd_->status_text({"fallbacks", place, "kind"}) == "transfer") return true;
    return false;
  }
  std::string told(const std::string& what) {
    return larderd_->status_text({"sessions", "attached", "0", "transfer", what});
  }
};

// covers F-028
TEST_F(ReasonTest, NoDriver) {
  if (std::filesystem::exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1"))
    GTEST_SKIP() << "this machine has a driver";
  larderd_ = larderd_that_copies({}, false);
  expect_reason("no_driver", "libcuda.so.1");
  EXPECT_TRUE(fell_back());
}

// covers F-028
TEST_F(ReasonTest, DriverTooOld) {
  larderd_ = larderd_that_copies({{"FAKE_CUDA_OLD", "1"}});
  expect_reason("old_driver", "share memory");
}

// covers F-028
TEST_F(ReasonTest, NoDeviceIsVisible) {
  larderd_ = larderd_that_copies({{"FAKE_CUDA_DEVICES", "0"}});
  expect_reason("no_device", "sees no GPU");
}

// covers F-028
TEST_F(ReasonTest, AnotherDevice) {
  larderd_ = larderd_that_copies({{"FAKE_CUDA_UUID", "9"}});
  expect_reason("other_device", "not the one");
}

// covers F-028
TEST_F(ReasonTest, AMigInstance) {
  larderd_ = larderd_that_copies();
  const Environment mig(Variables{{"FAKE_CUDA_MIG", "1"}});
  expect_reason("mig", "MIG");
}

// covers F-028
TEST_F(ReasonTest, MemoryNotExportable) {
  larderd_ = larderd_that_copies();
  expect_reason("not_exportable", "descriptor",
                {[](std::size_t bytes) { return fake_cuda::map_by_hand(bytes, false); },
                 [](std::byte* page) { return fake_cuda::view(page); }});
}

TEST_F(ReasonTest, PagesInHostMemory) {
  larderd_ = larderd_that_copies();
  expect_reason("host_memory", "host memory", {});
  EXPECT_FALSE(fell_back()) << "no fault that could be mended";
}

TEST_F(ReasonTest, NoRequestWithoutTheSetting) {
  larderd_ = std::make_unique<LarderdProcess>("16MiB", "error");
  engine_ = engine_at(*larderd_);
  EXPECT_TRUE(served(*engine_, 0));
  EXPECT_FALSE(engine_->client->sidecar_copies());
  EXPECT_EQ(told("reason"), "");
  EXPECT_EQ(told("way"), "shim");
}

}  // namespace
}  // namespace larder::test
