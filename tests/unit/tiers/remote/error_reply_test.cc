#include "sidecar/tiers/remote/resp/error_reply.h"

#include <gtest/gtest.h>

#include "sidecar/tiers/remote/topology/health.h"

namespace larder::remote {
namespace {

TEST(ErrorReplyTest, ErrorsAreClassified) {
  const auto trouble = [](const char* text) { return meaning_of(text).trouble; };
  EXPECT_EQ(trouble("OOM command not allowed when used memory > 'maxmemory'."), Trouble::kWrites);
  EXPECT_EQ(trouble("READONLY You can't write against a read only replica."), Trouble::kWrites);
  EXPECT_EQ(trouble("MISCONF Redis is configured to save RDB snapshots"), Trouble::kWrites);
  EXPECT_EQ(trouble("LOADING Redis is loading the dataset in memory"), Trouble::kReads);
  EXPECT_EQ(trouble("BUSY Redis is busy running a script."), Trouble::kReads);
  EXPECT_EQ(trouble("NOAUTH Authentication required."), Trouble::kDenied);
  EXPECT_EQ(trouble("NOPERM this user has no permissions"), Trouble::kForbidden);
  EXPECT_EQ(trouble("MOVED 3999 127.0.0.1:6381"), Trouble::kWrongMode);
  EXPECT_EQ(trouble("WRONGTYPE Operation against a key"), Trouble::kNone);
  EXPECT_EQ(trouble("ERR whatever"), Trouble::kNone);
  EXPECT_EQ(meaning_of("SECRET-PASSWORD-ECHOED").text.find("SECRET"), std::string_view::npos);
}

TEST(RemoteHealthTest, WriteFailureKeepsGetsAndReportsTheFirstCause) {
  Health health(50, 300);
  EXPECT_TRUE(health.set(Health::kWrites, "full"));
  EXPECT_FALSE(health.set(Health::kWrites, "full"));
  EXPECT_TRUE(!health.state().takes_puts && health.state().takes_gets);
  health.set(Health::kConnection, "gone");
  EXPECT_EQ(health.state().reason, "gone");
  EXPECT_FALSE(health.state().takes_gets);
  health.clear(Health::kConnection);
  EXPECT_EQ(health.state().reason, "full");
  EXPECT_EQ(health.times(), 2U);
}

}  // namespace
}  // namespace larder::remote
