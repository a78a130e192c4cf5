#include "sidecar/config/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/config/fields.h"

namespace larder::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ReloadTest, LiveKeysApplyAndOthersWaitForRestart) {
  Config running, wanted;
  wanted.backend.write = BackendWrite::kPopular;
  wanted.backend.write_bytes_per_s = 8ULL << 20;
  wanted.memory.size_bytes = 9ULL << 30;
  const Reload reload = config::reload(running, wanted);
  EXPECT_THAT(reload.changed, ElementsAre("backend.write", "backend.write_rate"));
  EXPECT_THAT(reload.waiting, ElementsAre("memory.size"));
  EXPECT_EQ(reload.config.backend.write, BackendWrite::kPopular);
  EXPECT_EQ(reload.config.backend.write_bytes_per_s, 8ULL << 20);
  EXPECT_EQ(reload.config.memory.size_bytes, running.memory.size_bytes);
}

TEST(ReloadTest, UnchangedConfigurationReloadsNothing) {
  const Reload reload = config::reload({}, {});
  EXPECT_THAT(reload.changed, IsEmpty());
  EXPECT_THAT(reload.waiting, IsEmpty());
}

TEST(ReloadTest, EveryLiveKeyExists) {
  for (const std::string_view key : live_keys()) EXPECT_NE(find_field(key), nullptr) << key;
}

}  // namespace
}  // namespace larder::config
