#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "operator/app/shutdown.h"
#include "sidecar/base/nap.h"

namespace larder::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

// The notified thread is busy; its work is cut short.
TEST(ShutdownTest, SignalStopsWorkInProgress) {
  const Result<Signals> signals = Signals::take();
  ASSERT_TRUE(signals.ok()) << signals.status().to_string();
  std::stop_source all;
  const Shutdown ending(*signals, all, minutes(10));
  ::kill(::getpid(), SIGTERM);
  base::nap(minutes(1), all.get_token());
  EXPECT_TRUE(all.stop_requested());
}

TEST(ShutdownTest, EndsWithoutSignal) {
  const Result<Signals> signals = Signals::take();
  ASSERT_TRUE(signals.ok()) << signals.status().to_string();
  std::stop_source all;
  { const Shutdown ending(*signals, all); }
  EXPECT_FALSE(all.stop_requested());
}

TEST(ShutdownDeathTest, TooLongShutdownIsAborted) {
  const auto never_end = [] {
    const Result<Signals> signals = Signals::take();
    std::stop_source all;
    const Shutdown ending(*signals, all, milliseconds(20));
    ::kill(::getpid(), SIGTERM);
    base::nap(minutes(1), {});
    ::_exit(3);
  };
  EXPECT_EXIT(never_end(), testing::ExitedWithCode(0), "stopping took too long");
}

}  // namespace
}  // namespace larder::app
