// Of a server's report about itself only known words, numbers and addresses are taken over.
#include "sidecar/backend_check/server_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::backend_check {
namespace {

remote::Reply text(const std::string& value) {
  return {remote::Reply::Kind::kBulk, value, 0, {}};
}
remote::Reply list(std::vector<std::string> words) {
  remote::Reply reply{remote::Reply::Kind::kArray, "", 0, {}};
  for (const std::string& word : words) reply.elements.push_back(text(word));
  return reply;
}

TEST(ServerInfoTest, ValkeyIsNotReportedAsRedis) {
  ServerFacts facts;
  take_info(
      "# "
      "Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:"
      "standalone\r\n",
      facts);
  EXPECT_EQ(facts.product + " " + facts.version + " " + facts.mode, "Valkey 8.0.1 standalone");
  facts = {};
  take_info(
      "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n# Replication\r\nrole:slave\r\n",
      facts);
  EXPECT_EQ(facts.product + " " + facts.version + " " + facts.mode + " " + facts.role,
            "Redis 7.0.15 cluster replica");
}

TEST(ServerInfoTest, NumbersAndSettings) {
  ServerFacts facts;
  take_info(
      "# "
      "Memory\r\nused_memory:123\r\nused_memory_human:1K\r\ntotal_system_memory:99\r\nmaxmemory:"
      "0\r\n"
      "maxmemory_policy:allkeys-lru\r\n# Persistence\r\naof_enabled:1\r\n",
      facts);
  EXPECT_EQ(facts.used_bytes, 123U);
  EXPECT_EQ(facts.machine_bytes, 99U);
  EXPECT_EQ(facts.max_bytes, 0U);
  EXPECT_EQ(facts.policy, "allkeys-lru");
  EXPECT_EQ(facts.append_only, true);
  EXPECT_FALSE(facts.snapshots || facts.io_threads);
  take_config(list({"save", "3600 1"}), facts);
  take_config(list({"io-threads", "4"}), facts);
  take_config(list({"databases", "16"}), facts);
  EXPECT_EQ(facts.snapshots, true);
  EXPECT_EQ(facts.io_threads, 4U);
  EXPECT_EQ(facts.databases, 16U);
}

TEST(ServerInfoTest, SentinelReportsItsQuorum) {
  const remote::Reply masters{
      remote::Reply::Kind::kArray,
      "",
      0,
      {list({"name", "x", "quorum", "9", "num-slaves", "9"}),
       list({"name", "kv", "quorum", "2", "num-slaves", "1", "num-other-sentinels", "3"})}};
  ServerFacts facts;
  take_masters(masters, "nobody", facts);
  EXPECT_FALSE(facts.quorum || facts.replicas || facts.other_sentinels);
  take_masters(masters, "kv", facts);
  EXPECT_EQ(facts.quorum, 2U);
  EXPECT_EQ(facts.replicas, 1U);
  EXPECT_EQ(facts.other_sentinels, 3U);
}

// The server got the password, and repeats the password wherever possible.
TEST(ServerInfoTest, HostileServerTextIsNotShown) {
  ServerFacts facts;
  take_hello(
      list({"server", "hunter2", "version", "hunter2", "mode", "hunter2", "role", "hunter2"}),
      facts);
  take_info(
      "\nredis_version:hunter2\r\nvalkey_version:hunter2\r\nredis_mode:hunter2\r\nserver_mode:"
      "hunter2\r\nrole:hunter2\r\n"
      "maxmemory:hunter2\r\nmaxmemory_policy:hunter2\r\naof_enabled:hunter2\r\n",
      facts);
  take_config(list({"databases", "hunter2"}), facts);
  take_config(list({"io-threads", "hunter2"}), facts);
  take_masters({remote::Reply::Kind::kArray, "", 0, {list({"name", "kv", "quorum", "hunter2"})}},
               "kv", facts);
  EXPECT_EQ(facts.product + facts.version + facts.mode + facts.role + facts.policy, "");
  EXPECT_FALSE(facts.quorum);
  EXPECT_FALSE(facts.max_bytes || facts.append_only || facts.databases || facts.io_threads);
}

TEST(ServerInfoTest, MalformedAnswersYieldNoFacts) {
  ServerFacts facts;
  take_hello({}, facts);
  take_hello(list({"version"}), facts);
  take_info("", facts);
  take_info("redis_version:7.0.15", facts);
  take_config({}, facts);
  take_config(list({"save"}), facts);
  take_config({remote::Reply::Kind::kError, "NOPERM", 0, {}}, facts);
  take_masters({remote::Reply::Kind::kArray, "", 0, {remote::Reply{}}}, "kv", facts);
  EXPECT_EQ(facts.version + facts.mode, "");
  EXPECT_FALSE(facts.snapshots);
}

}  // namespace
}  // namespace larder::backend_check
