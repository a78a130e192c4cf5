#include "sidecar/supervisor/probe_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/supervisor/child_process.h"
#include "sidecar/supervisor/memory_kills.h"

namespace larder::supervisor {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string get(const ProbePages& state, const std::string& path) {
  return state.answer("GET " + path + " HTTP/1.1\r\nHost: pod\r\n\r\n");
}
constexpr const char* kYes = "HTTP/1.1 200";
constexpr const char* kNo = "HTTP/1.1 503";

// covers F-209
TEST(ProbePages, StartupProbeWaitsForTheGraceAtMost) {
  base::ManualClock clock;
  ProbePages state(clock, 20'000);
  state.started();
  state.down("larderd ended with exit status 2: memory.size is missing");
  EXPECT_THAT(get(state, "/startupz"), AllOf(StartsWith(kNo), HasSubstr("memory.size is missing")));
  clock.advance_ms(19'999);
  EXPECT_THAT(get(state, "/startupz"), StartsWith(kNo));
  clock.advance_ms(1);
  EXPECT_THAT(get(state, "/startupz"), AllOf(StartsWith(kYes), HasSubstr("without its cache"),
                                             HasSubstr("memory.size is missing")));
  EXPECT_THAT(get(state, "/readyz"), AllOf(StartsWith(kNo), HasSubstr("memory.size is missing")));
}

TEST(ProbePages, StartedIsPermanentAndReadyFollowsLarderd) {
  base::ManualClock clock;
  ProbePages state(clock, 20'000);
  state.ready();
  EXPECT_THAT(get(state, "/startupz"), StartsWith(kYes));
  EXPECT_THAT(get(state, "/readyz?verbose"), StartsWith(kYes));
  state.down("killed", true);
  EXPECT_THAT(get(state, "/startupz"), StartsWith(kYes));
  EXPECT_THAT(get(state, "/readyz"), StartsWith(kNo));
}

TEST(ProbePages, HealthIsThatOfTheSupervisor) {
  base::ManualClock clock;
  ProbePages state(clock, 20'000);
  EXPECT_THAT(get(state, "/healthz"), StartsWith(kYes));
  state.down("gone");
  EXPECT_THAT(get(state, "/healthz"), AllOf(StartsWith(kYes), HasSubstr("gone")));
}

TEST(ProbePages, ReportsTheReasonToTheOperator) {
  base::ManualClock clock;
  ProbePages state(clock, 20'000);
  state.started();
  state.down("said \"no\"", true);
  EXPECT_THAT(get(state, "/v1/supervisor"),
              HasSubstr(R"({"ready":false,"why":"said \"no\"","starts":1,"out_of_memory":true})"));
  EXPECT_THAT(get(state, "/metrics"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(state.answer("POST /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
}

TEST(LastLine, IsJoinedFromPiecesAndBounded) {
  LastLine line;
  line.take("first\nsec");
  line.take("ond");
  EXPECT_EQ(line.text(), "second");
  line.take("\n");
  EXPECT_EQ(line.text(), "second");
  line.take(std::string(10'000, 'x'));
  EXPECT_EQ(line.text().size(), LastLine::kMostBytes);
}

// covers F-213
TEST(MemoryKills, AreReadFromBothCgroupVersions) {
  EXPECT_EQ(memory_kills_in("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n"), 2U);
  EXPECT_EQ(memory_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), 7U);
  EXPECT_EQ(memory_kills_in("oom_kill_disable 0\n"), 0U);
  EXPECT_EQ(memory_kills_in("nonsense"), 0U);
}

}  // namespace
}  // namespace larder::supervisor
