// The log lines that engines and strangers can cause: one line of each kind, then counts, more and
// more seldom.
#include <algorithm>
#include <memory>
#include <ranges>
#include <vector>

#include "sidecar/base/log_throttle.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

constexpr int kRounds = 200;

class LogFloodTest : public SidecarTest {
 protected:
  // While `act` runs and a second longer, few lines hold `text`, and the count of the others is
  // reported. The bound is of the process: an earlier test may have had the line of this second.
  template <typename Act>
  void expect_few(std::string_view text, Act act) {
    const auto begin = std::chrono::steady_clock::now();
    testing::internal::CaptureStderr();
    act();
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    base::tell_all_left_out();
    const std::string log = testing::internal::GetCapturedStderr();
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin)
            .count();
    const auto lines = std::ranges::count_if(log | std::views::split('\n'), [&](const auto& line) {
      return std::string_view(line.begin(), line.end()).find(text) != std::string_view::npos;
    });
    EXPECT_LE(lines, seconds + 1) << log;
    EXPECT_NE(log.find("left out: "), std::string::npos) << log;
  }
};

// S2: 19,138 lines in 1.5 s.
// covers F-105
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

// Sessions that begin well and then send nonsense, also with a line about each end.
// covers F-105
TEST_F(LogFloodTest, ReconnectingEngines) {
  start();
  expect_few(" attached", [&] {
    for (int i = 0; i < kRounds; ++i) {
      Client hostile(config_.socket);
      hostile.attach();
      hostile.open_namespace("a: 1");
      ASSERT_TRUE(hostile.send_raw(std::vector<std::byte>(64, std::byte{0xab})).ok());
      EXPECT_EQ(hostile.receive_error().code(), Code::kInvalidArgument);
    }
  });
}

// covers F-105
TEST_F(LogFloodTest, ValidMessages) {
  start();
  Client engine(config_.socket);
  engine.attach();
  expect_few(": namespace ", [&] {
    for (int i = 0; i < kRounds; ++i) engine.open_namespace("a: 1");
  });
}

// Nine processes of one engine without a place for its namespace try on for a minute.
// covers F-106
TEST_F(LogFloodTest, EnginesWithRefusedNamespaces) {
  start();
  std::vector<std::unique_ptr<Client>> owners;
  for (std::uint32_t i = 0; i < protocol::kMaxNamespaces; ++i) {
    if (i % protocol::kMaxClientNamespaces == 0) {
      owners.push_back(std::make_unique<Client>(config_.socket));
      owners.back()->attach();
    }
    owners.back()->open_namespace("taken: " + std::to_string(i));
  }
  base::tell_all_left_out();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 60; ++i) {
    Client refused(config_.socket);
    refused.attach();
    ASSERT_TRUE(refused.send_open_namespace("one more: 1").ok());
    EXPECT_EQ(refused.receive_error().code(), Code::kResourceExhausted);
  }
  EXPECT_TRUE(wait([&] { return stats().namespaces_refused == 60; }));
  const std::string refusals = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(refusals, '\n'), 1) << refusals;
  EXPECT_NE(refusals.find("OPEN_NAMESPACE: "), std::string::npos) << refusals;
  testing::internal::CaptureStderr();
  base::tell_all_left_out();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("left out: 59 more lines of uid "),
            std::string::npos);
}

}  // namespace
}  // namespace larder::loop::testing_support
