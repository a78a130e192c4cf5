#include "sidecar/config/backend_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::config {
namespace {

using testing::HasSubstr;
using testing::Not;

// The meaning of a URL, in one line.
std::string meaning(std::string_view text) {
  const Result<BackendUrl> url = parse_backend_url(text);
  if (!url.ok()) return url.status().text();
  const char* const modes[] = {"", "Sentinels ", "Cluster "};
  std::string hosts;
  for (const BackendHost& host : url->hosts)
    hosts += (hosts.empty() ? "" : ", ") + host.host + " " + std::to_string(host.port);
  return modes[static_cast<int>(url->mode)] + std::string(url->tls ? "tls " : "") + hosts +
         url->unix_path + (url->sentinel_master.empty() ? "" : " of " + url->sentinel_master) +
         (url->user.empty() ? "" : " as " + url->user) +
         (url->database == 0 ? "" : " /" + std::to_string(url->database));
}

TEST(BackendUrlTest, UrlIsParsedIntoItsFields) {
  EXPECT_EQ(meaning("redis://host"), "host 6379");
  EXPECT_EQ(meaning("redis://host/"), "host 6379");
  EXPECT_EQ(meaning("redis://10.1.2.3:7000/2"), "10.1.2.3 7000 /2");
  EXPECT_EQ(meaning("rediss://larder@cache-1.example:6380/0"),
            "tls cache-1.example 6380 as larder");
  EXPECT_EQ(meaning("valkey://host"), "host 6379");
  EXPECT_EQ(meaning("valkeys://host"), "tls host 6379");
  EXPECT_EQ(meaning("redis://[::1]"), "::1 6379");
  EXPECT_EQ(meaning("redis://user@[fe80::1%eth0]:7000/15"), "fe80::1%eth0 7000 as user /15");
  EXPECT_EQ(meaning("redis://a%40b%3Ac@host"), "host 6379 as a@b:c");
  EXPECT_EQ(meaning("unix:///run/redis/redis.sock"), "/run/redis/redis.sock");
  EXPECT_EQ(meaning("unix://larder@/run/a@b:c.sock"), "/run/a@b:c.sock as larder");
}

// covers F-203
TEST(BackendUrlTest, PluginServiceIsParsed) {
  for (const std::string scheme : {"mooncake", "infinistore", "plugin"}) {
    EXPECT_EQ(parse_backend_url(scheme + "://10.0.0.1:50051/x?y=z").value().plugin, scheme);
    for (const std::string rest : {"", "user@host", "ho st", "h\n"})
      EXPECT_THAT(meaning(scheme + "://" + rest), HasSubstr("names no service for the plug-in"));
  }
  EXPECT_EQ(parse_backend_url("redis://h").value().plugin, "");
  EXPECT_THAT(meaning("mooncakes://h:1"), HasSubstr("begins with 'mooncakes://'"));
}

TEST(BackendUrlTest, InvalidUrlsAreRefused) {
  for (const char* text : {"", "redis", "host:6379", "redis:/host", "redis//host", "://host",
                           "1://host", "RE DIS://host"})
    EXPECT_THAT(meaning(text), HasSubstr("is no URL of a Redis or Valkey")) << text;
  EXPECT_EQ(
      meaning("http://host"),
      "begins with 'http://', which is not one of: redis://, rediss://, valkey://, "
      "valkeys://, unix://, and for Sentinels or a "
      "Cluster redis-sentinel://, redis-cluster:// and their like; for a plug-in mooncake://, "
      "infinistore://, plugin://");
  EXPECT_THAT(meaning("redis+sentinel://s/m"), HasSubstr("redis-sentinel://"));
  for (const char* text : {"redis://", "redis:///2", "redis://:6379", "redis://user@",
                           "redis://a b", "redis://[]", "redis://[a_b]"})
    EXPECT_THAT(meaning(text), HasSubstr("names no host")) << text;
  for (const char* text : {"redis://host:", "redis://host:0", "redis://host:65536",
                           "redis://host:-1", "redis://host:redis", "redis://[::1]6379"})
    EXPECT_THAT(meaning(text), HasSubstr("has no port of 1 to 65535")) << text;
  EXPECT_THAT(meaning("redis://::1:6379"), HasSubstr("without brackets"));
  EXPECT_THAT(meaning("redis://[::1"), HasSubstr("has a '[' without its ']'"));
  for (const char* text :
       {"redis://host/two", "redis://host/-1", "redis://host/2147483648", "redis://host/1/2"})
    EXPECT_THAT(meaning(text), HasSubstr("has no number of a database")) << text;
  for (const char* text : {"redis://host?db=1", "redis://host/0#a", "unix:///a?db=1"})
    EXPECT_THAT(meaning(text), HasSubstr("has a key of its own in backend")) << text;
  for (const char* text : {"redis://@host", "redis://%4@host", "redis://a%20b@host",
                           "redis://a%zzb@host", "unix://@/a"})
    EXPECT_THAT(meaning(text), HasSubstr("has no user's name before its '@'")) << text;
  for (const char* text : {"unix://", "unix://run/a", "unix://user@run"})
    EXPECT_THAT(meaning(text), HasSubstr("names no absolute path")) << text;
  EXPECT_THAT(meaning("unix:///" + std::string(107, 'x')), HasSubstr("at most 107 bytes"));
}

TEST(BackendUrlTest, SentinelsAndTheNameOfTheirMaster) {
  EXPECT_EQ(meaning("redis-sentinel://s1:7000,s2/mymaster"),
            "Sentinels s1 7000, s2 26379 of mymaster");
  EXPECT_EQ(meaning("rediss-sentinel://me@[::1]:7000,10.0.0.1/my_m.a-ster/3"),
            "Sentinels tls ::1 7000, 10.0.0.1 26379 of my_m.a-ster as me /3");
  EXPECT_EQ(meaning("valkey-sentinel://s/m/"), "Sentinels s 26379 of m");
  EXPECT_EQ(meaning("valkeys-sentinel://s/m"), "Sentinels tls s 26379 of m");
  for (const char* text : {"redis-sentinel://s1,s2", "redis-sentinel://s1/",
                           "redis-sentinel://s1//0", "redis-sentinel://s1/a%20b"})
    EXPECT_THAT(meaning(text), HasSubstr("names no master behind the Sentinels")) << text;
  EXPECT_THAT(meaning("redis-sentinel://s1/m/two"), HasSubstr("has no number of a database"));
  EXPECT_THAT(meaning("redis-sentinel://s1#m"), HasSubstr("host[:port],.../MASTER"))
      << "as others write it";
}

TEST(BackendUrlTest, NodesOfACluster) {
  EXPECT_EQ(meaning("redis-cluster://h1:7000,h2"), "Cluster h1 7000, h2 6379");
  EXPECT_EQ(meaning("valkeys-cluster://me@h"), "Cluster tls h 6379 as me");
  EXPECT_EQ(meaning("rediss-cluster://h/0"), "Cluster tls h 6379");
  EXPECT_THAT(meaning("redis-cluster://h/1"), HasSubstr("a Cluster has 0 alone"));
}

TEST(BackendUrlTest, SeveralHosts) {
  EXPECT_THAT(meaning("redis://h1,h2"), HasSubstr("names several hosts: make it redis-cluster://"));
  for (const char* text :
       {"redis-cluster://h1,", "redis-cluster://,h1", "redis-cluster://", "redis-cluster://h1, h2"})
    EXPECT_THAT(meaning(text), HasSubstr("names no host")) << text;
  EXPECT_THAT(meaning("redis-cluster://h:1,h:1"), HasSubstr("names a host twice"));
  EXPECT_THAT(meaning("redis-sentinel://h,h:26379/m"), HasSubstr("names a host twice"))
      << "its vote would count twice";
  std::string many = "redis-cluster://h0";
  for (std::size_t i = 1; i < BackendUrl::kMostHosts; ++i) many += ",h" + std::to_string(i);
  EXPECT_THAT(meaning(many), HasSubstr(", h31 6379"));
  EXPECT_THAT(meaning(many + ",more"), HasSubstr("names more than 32 hosts"));
}

// In any form of the password, and with other faults of the URL.
// covers F-204
TEST(BackendUrlTest, APasswordIsRefusedAndNeverRepeated) {
  for (const char* text :
       {"redis://user:hunter2@host", "redis://:hunter2@host:6379/1",
        "rediss://user:hun/hunter2@host", "redis://user:@hunter2@host", "redis://hunter2:@host",
        "unix://user:hunter2@/run/a", "valkey://a:b:hunter2@[::1"}) {
    EXPECT_THAT(meaning(text), HasSubstr("holds a password: put it into a file")) << text;
    EXPECT_THAT(meaning(text), Not(HasSubstr("hunter2"))) << text;
  }
  for (const char* text :
       {"redis//:hunter2@host", "user:hunter2@host", "redis://host?password=hunter2",
        "redis://user:hunter2", "redis://user:hunter2/0", "redis://hunter2%@host", "unix://hunter2",
        "redis://host/hunter2", "Hunter2hunter2://host", "redis-sentinel://user:hunter2@host",
        "redis-sentinel://host/hunter2/hunter2", "redis-sentinel://host/hunter2%",
        "redis-cluster://host,hunter2@/hunter2", "redis-cluster://host/hunter2"})
    EXPECT_THAT(meaning(text), Not(HasSubstr("hunter2"))) << text;
}

TEST(BackendUrlTest, UserIsRemovedForDisplay) {
  EXPECT_EQ(without_user("rediss://me%40home@h:1/2"), "rediss://h:1/2");
  EXPECT_EQ(without_user("redis-cluster://me@h1,[::1]:7000"), "redis-cluster://h1,[::1]:7000");
  for (const char* url :
       {"redis://h", "redis://h:1/2", "unix:///run/a@b.sock", "redis-sentinel://h,g/master@home"})
    EXPECT_EQ(without_user(url), url);
}

}  // namespace
}  // namespace larder::config
