// Nine processes of one engine that larderd refuses for a reason that only a person can mend, as
// with tensor parallelism of eight. Each once tried again four times a second, with one to three
// lines each time.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/component/logged_larderd.h"
#include "tests/unit/client/engine.h"

namespace larder::test {
namespace {

using client::testing_support::EngineClient;
using client::testing_support::PageLayout;

constexpr int kProcesses = 9;
const PageLayout kLarge{"large", 8, 16, 128 << 10, 0, false, 0};  // chunks of 16 MiB

// Tries to attach for its whole life, like an engine.
int be_refused(const std::string& socket) {
  const EngineClient engine(socket, kLarge);
  std::this_thread::sleep_for(std::chrono::minutes(10));
  return 0;
}

// covers F-058, F-106
TEST(RefusedEngines, RetriesLogFewLinesAndFittingEngineIsServed) {
  LoggedLarderd larderd("8MiB", "");
  std::vector<std::unique_ptr<ChildProcess>> refused;  // before this process has a thread
  for (int i = 0; i < kProcesses; ++i)
    refused.push_back(
        std::make_unique<ChildProcess>([&] { return be_refused(larderd->socket()); }));
  const auto told = [&] { return larderd.log().find("raise memory.size") != std::string::npos; };
  ASSERT_TRUE(eventually(told, 30'000)) << larderd.log();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const std::string before = larderd.log();
  std::this_thread::sleep_for(std::chrono::seconds(idle_seconds()));
  const std::string log = larderd.log().substr(before.size());
  expect_few("nine refused engines", lines_of(log), 0, log);
  EXPECT_LE(log.size(), 1'000'000U * static_cast<unsigned>(idle_seconds()) / 60);
  for (const auto& one : refused) EXPECT_TRUE(one->running());
  EXPECT_EQ(larderd->status_number({"sessions", "attached"}), 0);
  EXPECT_EQ(larderd->status_text({"fallbacks", "0", "kind"}), "engines")
      << "the status names the reason as well";
  EngineClient fits(larderd->socket(), {"small", 1, 1, 4096, 0, false, 0});
  EXPECT_TRUE(fits.client->wait_attached(30'000).ok());
}

}  // namespace
}  // namespace larder::test
