// The lines that strangers can make a process log.
#include "sidecar/base/log_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace larder::base {
namespace {

using testing::HasSubstr;

class LogThrottleTest : public testing::Test {
 protected:
  // The lines that `act` writes.
  template <typename Act>
  std::string lines_of(Act act) {
    testing::internal::CaptureStderr();
    act();
    return testing::internal::GetCapturedStderr();
  }
  static std::ptrdiff_t count(const std::string& lines) { return std::ranges::count(lines, '\n'); }

  ManualClock clock_;
  LogThrottle throttle_{clock_};
};

// covers F-105
TEST_F(LogThrottleTest, EachSourceGetsOneLineASecondAndACount) {
  const std::string first = lines_of([&] {
    for (int i = 0; i < 1000; ++i) throttle_.log("10.0.0.7", LogLevel::kWarning, "bad");
    throttle_.log("10.0.0.8", LogLevel::kWarning, "bad, too");
    throttle_.tell();
  });
  EXPECT_EQ(count(first), 2) << first;
  clock_.advance_ms(1000);
  const std::string later = lines_of([&] { throttle_.tell(); });
  EXPECT_EQ(count(later), 1);
  EXPECT_THAT(later, HasSubstr("warning left out: 999 more lines of 10.0.0.7\n"));
}

// A second, two, four, up to a minute.
// covers F-105
TEST_F(LogThrottleTest, PersistentSourceBacksOffToOneLineAMinute) {
  const auto lines_in_s = [&](int seconds) {
    return count(lines_of([&] {
      for (int ms = 0; ms < seconds * 1000; ms += 10) {
        throttle_.log("a", LogLevel::kInfo, "again");
        clock_.advance_ms(10);
      }
    }));
  };
  EXPECT_LE(lines_in_s(60), 7);
  lines_in_s(120);
  EXPECT_LE(lines_in_s(600), 10);
}

TEST_F(LogThrottleTest, OccasionalLinesAreAllWritten) {
  std::ptrdiff_t lines = 0;
  for (int i = 0; i < 20; ++i) {
    lines += count(lines_of([&] { throttle_.log("a", LogLevel::kInfo, "again"); }));
    clock_.advance_ms(5000);
  }
  EXPECT_EQ(lines, 20);
}

// covers F-106
TEST_F(LogThrottleTest, RefusalIsLoggedOnceAndCountedOnceAMinute) {
  LogThrottle refusals(clock_, LogThrottle::kMostMs);
  std::string log;
  for (int s = 0; s < 300; ++s) {
    log += lines_of([&] {
      for (int process = 0; process < 9; ++process)
        refusals.log("uid 1000, no", LogLevel::kWarning, "refused");
      refusals.tell();
    });
    clock_.advance_ms(1000);
  }
  EXPECT_EQ(count(log), 5) << log;
  EXPECT_THAT(log, HasSubstr("left out: 539 more lines of uid 1000, no\n"));
}

// Like the rest of this process: two causes of one user, with different numbers each time.
TEST_F(LogThrottleTest, EachCauseHasItsLineRegardlessOfNumbers) {
  const std::string log = lines_of([] {
    for (int i = 0; i < 50; ++i) {
      log_refusal("uid 7", "all " + std::to_string(i) + " sessions are taken", LogLevel::kWarning,
                  "full " + std::to_string(i));
      log_refusal("uid 7", "version " + std::to_string(i), LogLevel::kWarning, "other version");
    }
  });
  EXPECT_EQ(count(log), 2) << log;
  EXPECT_THAT(log, HasSubstr("full 0\n"));
  EXPECT_THAT(lines_of([] { tell_all_left_out(); }),
              HasSubstr("left out: 49 more lines of uid 7: all # sessions are taken\n"));
}

// A stranger sends namespaces of random ids: these once took every place of the table, a line each.
TEST_F(LogThrottleTest, IdsInARefusalMakeNoNewCause) {
  const std::string log = lines_of([] {
    for (int i = 0; i < 200; ++i) {
      const std::string id =
          std::string(20, "abcdef"[i % 6]) + std::to_string(10'000'000 + i) + "beef";
      log_refusal("uid 7", "namespace id " + id + " is not the hash", LogLevel::kWarning,
                  "refused");
    }
    log_refusal("uid 8", "a bad face", LogLevel::kWarning, "another user");
  });
  EXPECT_EQ(count(log), 2) << log;
  EXPECT_THAT(lines_of([] { tell_all_left_out(); }),
              HasSubstr("199 more lines of uid 7: namespace id # is not the hash\n"));
}

TEST_F(LogThrottleTest, AQuietSourceLeavesTheTable) {
  lines_of([&] { throttle_.log("a", LogLevel::kInfo, "once"); });
  EXPECT_EQ(throttle_.sources(), 1U);
  clock_.advance_ms(1000);
  EXPECT_EQ(lines_of([&] { throttle_.tell(); }), "");
  EXPECT_EQ(throttle_.sources(), 1U);
  clock_.advance_ms(1000);
  EXPECT_EQ(lines_of([&] { throttle_.tell(); }), "");
  EXPECT_EQ(throttle_.sources(), 0U);
}

// covers F-105
TEST_F(LogThrottleTest, SourcesOverTheLimitShareOneEntry) {
  const std::string lines = lines_of([&] {
    for (int i = 0; i < 100'000; ++i)
      throttle_.log("stranger " + std::to_string(i), LogLevel::kWarning, "bad");
  });
  constexpr auto kMost = static_cast<std::ptrdiff_t>(LogThrottle::kMostSources);
  EXPECT_EQ(count(lines), kMost + 1);
  EXPECT_EQ(throttle_.sources(), LogThrottle::kMostSources + 1);
  clock_.advance_ms(1000);
  EXPECT_THAT(
      lines_of([&] { throttle_.tell(); }),
      HasSubstr("left out: " + std::to_string(100'000 - kMost - 1) + " more lines of others"));
  clock_.advance_ms(4000);
  throttle_.tell();
  EXPECT_EQ(throttle_.sources(), 0U);
}

TEST_F(LogThrottleTest, LinesBelowTheLevelAreNotCounted) {
  EXPECT_EQ(lines_of([&] { throttle_.log("a", LogLevel::kDebug, "no"); }), "");
  EXPECT_EQ(throttle_.sources(), 0U);
}

TEST_F(LogThrottleTest, DestructorLogsPendingCounts) {
  const std::string lines = lines_of([&] {
    LogThrottle short_lived(clock_);
    for (int i = 0; i < 3; ++i) short_lived.log("a", LogLevel::kInfo, "x");
  });
  EXPECT_THAT(lines, HasSubstr("left out: 2 more lines of a\n"));
}

}  // namespace
}  // namespace larder::base
