#include "operator/kubectl/backend_state.h"

#include <gtest/gtest.h>

namespace larder::kubectl {
namespace {

using api::Object;

const Object kBackend{
    {"metadata", {{"name", "cache"}, {"namespace", "ml"}}},
    {"status",
     {{"conditions",
       {{{"type", "Ready"}, {"status", "True"}, {"reason", "Answers"}, {"message", "Redis 7"}},
        {{"type", "CacheServes"},
         {"status", "False"},
         {"reason", "BackendDegraded"},
         {"message", "1 of 1 pods (chat-1): OOM"}}}}}}};

// A full Redis: present chunks are found, so the command must not end as if the backend were down.
TEST(BackendStateTest, BackendRefusingChunksIsUsable) {
  const BackendState seen =
      backend_seen(kBackend, {"chat"}, {{"chat-1", "redis://cache:6379", "OOM", true}});
  EXPECT_FALSE(seen.unusable());
  EXPECT_FALSE(has_problem(seen.findings)) << backend_text(seen);
  EXPECT_NE(backend_text(seen).find("BackendDegraded"), std::string::npos) << backend_text(seen);
  EXPECT_NE(backend_text(seen).find("1 of 1 larderd read from the backend"), std::string::npos)
      << backend_text(seen);
}

TEST(BackendStateTest, BackendUnreachableFromPodsIsUnusable) {
  const BackendState seen = backend_seen(
      kBackend, {"chat"}, {{"chat-1", "redis://cache:6379", "connection refused", false}});
  EXPECT_TRUE(seen.unusable());
  EXPECT_NE(backend_text(seen).find("PodsCannotUseIt"), std::string::npos);
}

// The API server fills spec.mode in, also for a backend that is no Redis.
TEST(BackendStateTest, ModeIsShownForRedisAlone) {
  const auto text_of = [](const char* type) {
    Object backend = kBackend;
    backend["spec"] = {{"type", type}, {"mode", "Standalone"}};
    backend["status"]["server"] = "server";
    return backend_text(backend_seen(backend, {"chat"}, {}));
  };
  EXPECT_NE(text_of("Redis").find("server, Standalone"), std::string::npos) << text_of("Redis");
  for (const char* type : {"Mooncake", "InfiniStore"})
    EXPECT_EQ(text_of(type).find("Standalone"), std::string::npos) << text_of(type);
}

}  // namespace
}  // namespace larder::kubectl
