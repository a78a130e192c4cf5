// What engines, and those who are none, can make larderd log: one line a second of each kind.
#include <algorithm>
#include <ranges>

#include "tests/unit/ipc/sidecar_fixture.h"

namespace larder::ipc::testing_support {
namespace {

constexpr int kRounds = 200;

class LogFloodTest : public SidecarTest {
 protected:
  // While `act` runs and a second longer, few lines hold `text`, and the count of the others is told. The bound is of the process: an
  // earlier test may have had the line of this second.
  template <typename Act>
  void expect_few(std::string_view text, Act act) {
    const auto begin = std::chrono::steady_clock::now();
    testing::internal::CaptureStderr();
    act();
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    const std::string log = testing::internal::GetCapturedStderr();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
    const auto lines = std::ranges::count_if(log | std::views::split('\n'), [&](const auto& line) {
      return std::string_view(line.begin(), line.end()).find(text) != std::string_view::npos;
    });
    EXPECT_LE(lines, seconds + 1) << log;
    EXPECT_NE(log.find("left out: "), std::string::npos) << log;
  }
};

// S2: 19,138 lines in 1.5 s.
TEST_F(LogFloodTest, BadConnections) {
  start();
  expect_few("wrong magic", [&] {
    for (int i = 0; i < kRounds; ++i) {
      Client hostile(config_.socket);
      ASSERT_TRUE(hostile.send_raw(std::vector<std::byte>(64, std::byte{0xab})).ok());
      EXPECT_EQ(hostile.receive_error().code(), Code::kInvalidArgument);
    }
  });
  EXPECT_TRUE(wait([&] { return stats().protocol_errors == kRounds; })) << "all are counted";
}

// Sessions that begin well and send nonsense then, also with a line about each that ends.
TEST_F(LogFloodTest, EnginesThatComeAndGo) {
  start();
  expect_few(" attached", [&] {
    for (int i = 0; i < kRounds; ++i) {
      Client hostile(config_.socket);
      hostile.attach();
      ASSERT_TRUE(hostile.send_raw(std::vector<std::byte>(64, std::byte{0xab})).ok());
      EXPECT_EQ(hostile.receive_error().code(), Code::kInvalidArgument);
    }
  });
}

TEST_F(LogFloodTest, MessagesThatAreAllRight) {
  start();
  Client engine(config_.socket);
  engine.attach();
  expect_few(": namespace ", [&] {
    for (int i = 0; i < kRounds; ++i) engine.open_namespace("a: 1");
  });
}

}  // namespace
}  // namespace larder::ipc::testing_support
