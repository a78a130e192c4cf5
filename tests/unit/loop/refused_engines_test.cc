// Engines that larderd refuses, and the place where a person reads why.
#include "sidecar/loop/refused_engines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

auto told(const std::string& why, std::uint64_t times = 1) {
  return AllOf(
      Field(&stats::Fallback::kind, "engines"),
      Field(&stats::Fallback::why,
            AllOf(StartsWith("an engine is refused and runs without the cache: "), HasSubstr(why))),
      Field(&stats::Fallback::times, times));
}

stats::Stats at(RefusedEngines& refused, std::uint64_t now_ms) {
  stats::Stats view;
  refused.fill(view, now_ms);
  return view;
}

TEST(RefusedEnginesTest, ReasonIsReportedWhileEnginesAreRefused) {
  RefusedEngines refused;
  EXPECT_THAT(at(refused, 0).fallbacks, IsEmpty());
  refused.note("a chunk needs 10 bytes", 1000);
  refused.note("version 9 is not spoken here", 2000);
  refused.note("a chunk needs 20 bytes", 60'000);
  EXPECT_THAT(at(refused, 60'000).fallbacks,
              ElementsAre(told("a chunk needs 20 bytes", 2), told("version 9")));
  EXPECT_THAT(at(refused, 2001 + RefusedEngines::kInForceMs).fallbacks,
              ElementsAre(told("a chunk needs 20 bytes", 2)));
  EXPECT_THAT(at(refused, 60'001 + RefusedEngines::kInForceMs).fallbacks, IsEmpty());
}

TEST(RefusedEnginesTest, ReasonsAreBoundedInNumberAndLength) {
  RefusedEngines refused;
  for (const char* why : {"a", "b", "c", "d", "e"}) refused.note(why, 1000);
  EXPECT_THAT(at(refused, 1000).fallbacks, ElementsAre(told("e"), told("d"), told("c"), told("b")));
  refused.note(std::string(1'000'000, 'x'), 1000);
  EXPECT_LT(at(refused, 1000).fallbacks.front().why.size(), RefusedEngines::kMostTextBytes + 100);
}

using SidecarRefusedEngines = testing_support::SidecarTest;

// covers F-058
TEST_F(SidecarRefusedEngines, EngineWithTooLargeChunkIsInTheStatus) {
  start();
  testing_support::Client engine(config_.socket);
  engine.attach();
  ASSERT_TRUE(engine.send_open_namespace("too: large", 1 << 20).ok());
  EXPECT_EQ(engine.receive_error().code(), Code::kOutOfRange);
  EXPECT_TRUE(wait([&] { return !stats().fallbacks.empty(); }));
  EXPECT_THAT(stats().fallbacks,
              ElementsAre(told("raise memory.size or use a smaller chunk_tokens")));
}

TEST_F(SidecarRefusedEngines, MalformedMessageIsNoRefusalReason) {
  start();
  testing_support::Client stranger(config_.socket);
  stranger.attach();
  ASSERT_TRUE(stranger.hello().ok());
  EXPECT_EQ(stranger.receive_error().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(wait([&] { return stats().protocol_errors == 1; }));
  EXPECT_THAT(stats().fallbacks, IsEmpty());
}

}  // namespace
}  // namespace larder::loop
