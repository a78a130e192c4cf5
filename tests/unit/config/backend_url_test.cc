#include "sidecar/config/backend_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::config {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a URL means, in one line.
std::string meaning(std::string_view text) {
  const Result<BackendUrl> url = parse_backend_url(text);
  if (!url.ok()) return url.status().text();
  return (url->tls ? "tls " : "") + (url->unix_path.empty() ? url->host + " " + std::to_string(url->port) : url->unix_path) +
         (url->user.empty() ? "" : " as " + url->user) + (url->database == 0 ? "" : " /" + std::to_string(url->database));
}

TEST(BackendUrlTest, WhatItSays) {
  EXPECT_EQ(meaning("redis://host"), "host 6379");
  EXPECT_EQ(meaning("redis://host/"), "host 6379");
  EXPECT_EQ(meaning("redis://10.1.2.3:7000/2"), "10.1.2.3 7000 /2");
  EXPECT_EQ(meaning("rediss://larder@cache-1.example:6380/0"), "tls cache-1.example 6380 as larder");
  EXPECT_EQ(meaning("valkey://host"), "host 6379");
  EXPECT_EQ(meaning("valkeys://host"), "tls host 6379");
  EXPECT_EQ(meaning("redis://[::1]"), "::1 6379");
  EXPECT_EQ(meaning("redis://user@[fe80::1%eth0]:7000/15"), "fe80::1%eth0 7000 as user /15");
  EXPECT_EQ(meaning("redis://a%40b%3Ac@host"), "host 6379 as a@b:c");
  EXPECT_EQ(meaning("unix:///run/redis/redis.sock"), "/run/redis/redis.sock");
  EXPECT_EQ(meaning("unix://larder@/run/a@b:c.sock"), "/run/a@b:c.sock as larder");
}

TEST(BackendUrlTest, WhatIsNone) {
  for (const char* text : {"", "redis", "host:6379", "redis:/host", "redis//host", "://host", "1://host", "RE DIS://host"})
    EXPECT_THAT(meaning(text), HasSubstr("is no URL of a Redis or Valkey")) << text;
  EXPECT_EQ(meaning("http://host"),
            "begins with 'http://', which is none of: redis://, rediss://, valkey://, valkeys://, unix://");
  for (const char* text :
       {"redis://", "redis:///2", "redis://:6379", "redis://user@", "redis://a b", "redis://[]", "redis://[a_b]"})
    EXPECT_THAT(meaning(text), HasSubstr("names no host")) << text;
  for (const char* text :
       {"redis://host:", "redis://host:0", "redis://host:65536", "redis://host:-1", "redis://host:redis", "redis://[::1]6379"})
    EXPECT_THAT(meaning(text), HasSubstr("has no port of 1 to 65535")) << text;
  EXPECT_THAT(meaning("redis://::1:6379"), HasSubstr("without brackets"));
  EXPECT_THAT(meaning("redis://[::1"), HasSubstr("has a '[' without its ']'"));
  for (const char* text : {"redis://host/two", "redis://host/-1", "redis://host/2147483648", "redis://host/1/2"})
    EXPECT_THAT(meaning(text), HasSubstr("has no number of a database")) << text;
  for (const char* text : {"redis://host?db=1", "redis://host/0#a", "unix:///a?db=1"})
    EXPECT_THAT(meaning(text), HasSubstr("has a key of its own in backend")) << text;
  for (const char* text : {"redis://@host", "redis://%4@host", "redis://a%20b@host", "redis://a%zzb@host", "unix://@/a"})
    EXPECT_THAT(meaning(text), HasSubstr("has no user's name before its '@'")) << text;
  for (const char* text : {"unix://", "unix://run/a", "unix://user@run"})
    EXPECT_THAT(meaning(text), HasSubstr("names no absolute path")) << text;
  EXPECT_THAT(meaning("unix:///" + std::string(107, 'x')), HasSubstr("at most 107 bytes"));
}

TEST(BackendUrlTest, WhatIsNotServedYetIsSaid) {
  for (const char* text : {"redis-sentinel://a:26379,b:26379", "redis+sentinel://a/name", "rediss-sentinel://a"})
    EXPECT_THAT(meaning(text), HasSubstr("names Sentinels, which are not served yet")) << text;
  for (const char* text : {"redis-cluster://a:7000,b:7000", "valkey-cluster://a"})
    EXPECT_THAT(meaning(text), HasSubstr("names a Cluster, which is not served yet")) << text;
}

// However it is written, and wherever the URL is wrong besides.
TEST(BackendUrlTest, APasswordIsRefusedAndNeverRepeated) {
  for (const char* text :
       {"redis://user:hunter2@host", "redis://:hunter2@host:6379/1", "rediss://user:hun/hunter2@host",
        "redis://user:@hunter2@host", "redis://hunter2:@host", "unix://user:hunter2@/run/a", "valkey://a:b:hunter2@[::1"}) {
    EXPECT_THAT(meaning(text), HasSubstr("holds a password: put it into a file")) << text;
    EXPECT_THAT(meaning(text), Not(HasSubstr("hunter2"))) << text;
  }
  for (const char* text : {"redis//:hunter2@host", "user:hunter2@host", "redis://host?password=hunter2", "redis://user:hunter2",
                           "redis://user:hunter2/0", "redis://hunter2%@host", "unix://hunter2", "redis://host/hunter2",
                           "Hunter2hunter2://host", "redis-sentinel://user:hunter2@host"})
    EXPECT_THAT(meaning(text), Not(HasSubstr("hunter2"))) << text;
}

}  // namespace
}  // namespace larder::config
