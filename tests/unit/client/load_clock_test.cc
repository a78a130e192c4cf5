// A load's report of its time: the engine's own work before the fence is waiting, not copying. By
// that speed the engine chooses to load or to compute.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/client/copies.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using std::chrono::milliseconds;
using testing_support::EngineClient;

constexpr milliseconds kForwardPass{300};

// Work of the engine that ends a given time after it was queued, with a failure or without.
class Pass final : public copy::Fence {
 public:
  explicit Pass(bool fails) : fails_(fails) {}
  Status wait() const override {
    std::this_thread::sleep_until(ends_);
    return fails_ ? Status(Code::kInternal, "the device is lost") : Status();
  }

 private:
  const std::chrono::steady_clock::time_point ends_ =
      std::chrono::steady_clock::now() + kForwardPass;
  const bool fails_;
};

class BehindAPass final : public testing_support::HostCopies {
 public:
  Result<std::shared_ptr<const copy::Fence>> fence(void*) const override {
    return std::shared_ptr<const copy::Fence>(std::make_shared<const Pass>(fails));
  }
  // As an engine that copies behind the fence by itself.
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    if (to.after != nullptr)
      if (Status status = to.after->wait(); !status.ok()) return status;
    return HostCopies::load(slot, root, to);
  }
  bool fails = false;
};

class LoadClockTest : public loop::testing_support::SidecarTest {
 protected:
  LoadClockTest() { config_.memory.size_bytes = 32 << 20; }
  void SetUp() override {
    start();
    engine_.emplace(config_.socket, testing_support::PageLayout{"plain", 4, 4, 16384, 0, false, 0},
                    copies_);
    ASSERT_TRUE(engine_->client->wait_attached(5000).ok());
    engine_->store(0, 3);
    ASSERT_TRUE(engine_->await_present(0, 3));
    engine_->engine.wipe();
  }
  void TearDown() override {  // before the objects in use go
    engine_.reset();
    stop();
  }
  Completion load() {
    return engine_->await(engine_->client->load(engine_->transfer(0, 3), 5000).value());
  }
  BehindAPass copies_;
  std::optional<EngineClient> engine_;
};

TEST_F(LoadClockTest, CopyTimeStartsBehindTheEngineWork) {
  ASSERT_TRUE(engine_->client->after_stream(nullptr).ok());
  const Completion done = load();
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_TRUE(engine_->holds(0, 3));
  const auto pass = static_cast<std::uint64_t>(std::chrono::nanoseconds(kForwardPass).count());
  EXPECT_GE(done.wait_ns, pass * 9 / 10);
  EXPECT_LT(done.copy_ns, pass / 2) << "200 KiB";
}

TEST_F(LoadClockTest, EngineWorkErrorFailsTheLoad) {
  copies_.fails = true;
  ASSERT_TRUE(engine_->client->after_stream(nullptr).ok());
  EXPECT_EQ(load().status, Code::kInternal);
}

TEST_F(LoadClockTest, WithoutFenceCopyTimeStartsWithItsThread) {
  const Completion done = load();
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_LT(done.wait_ns + done.copy_ns,
            static_cast<std::uint64_t>(std::chrono::nanoseconds(milliseconds(4000)).count()));
  EXPECT_GT(done.copy_ns, 0U);
}

}  // namespace
}  // namespace larder::client
