#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/cache_backend.h"
#include "tests/unit/operator/api/yaml_object.h"

namespace larder::api {
namespace {

using testing::StartsWith;

Result<CacheBackend> parse(const std::string& spec) {
  return parse_backend(
      test::from_yaml("metadata: {namespace: chat, name: b}\nspec: " + spec).at(0));
}

TEST(ParseBackend, SmallestSpecGetsEveryDefault) {
  const Result<CacheBackend> backend =
      parse("{endpoints: ['redis:6379'], password: {name: s}, tls: {caSecret: ca}}");
  ASSERT_TRUE(backend.ok()) << backend.status().text();
  EXPECT_EQ(backend->spec.mode, BackendMode::kStandalone);
  EXPECT_EQ(backend->spec.password->key, "password");
  EXPECT_TRUE(backend->spec.tls.enabled);
  EXPECT_FALSE(backend->spec.managed);
  EXPECT_FALSE(parse("{endpoints: ['redis:6379']}")->spec.tls.enabled);
  const Result<CacheBackend> managed = parse("{managed: {memory: 8Gi}}");
  ASSERT_TRUE(managed.ok()) << managed.status().text();
  EXPECT_EQ(managed->spec.managed->engine, "valkey");
  EXPECT_EQ(managed->spec.managed->memory_bytes, 8ULL << 30);
  EXPECT_EQ(managed->spec.managed->policy, "allkeys-lru");
  EXPECT_EQ(parse("{managed: {memory: 1.5Gi}}")->spec.managed->memory_bytes, 3ULL << 29);
  EXPECT_EQ(parse("{managed: {memory: 8589934592}}")->spec.managed->memory_bytes, 8ULL << 30);
}

TEST(ParseBackend, AMooncakeHasAMasterAndAPlugIn) {
  const Result<CacheBackend> backend = parse(
      "{type: Mooncake, endpoints: ['m.cache.svc:50051'], mooncake: {protocol: rdma, devices: "
      "[mlx5_0], deviceResource: rdma/hca, contribute: 8Gi}}");
  ASSERT_TRUE(backend.ok()) << backend.status().text();
  EXPECT_EQ(plugin_of(*backend)->container, "larder-mooncake");
  EXPECT_EQ(url_of(*backend), "mooncake://m.cache.svc:50051");
  EXPECT_TRUE(backend->spec.mooncake.rdma);
  EXPECT_EQ(backend->spec.mooncake.contribute_bytes, 8ULL << 30);
  const Result<CacheBackend> smallest = parse("{type: Mooncake, endpoints: ['[fd00::7]:50051']}");
  ASSERT_TRUE(smallest.ok()) << smallest.status().text();
  EXPECT_EQ(url_of(*smallest), "mooncake://[fd00::7]:50051");
  EXPECT_FALSE(smallest->spec.mooncake.rdma);
  EXPECT_EQ(smallest->spec.mooncake.contribute_bytes, 0U);
  EXPECT_EQ(plugin_of(*parse("{endpoints: ['redis:6379']}")), nullptr);
  EXPECT_EQ(plugin_of(std::nullopt), nullptr);
}

TEST(ParseBackend, AnInfiniStoreHasAServerAndAPlugIn) {
  const Result<CacheBackend> backend = parse("{type: InfiniStore, endpoints: ['i:22345']}");
  ASSERT_TRUE(backend.ok()) << backend.status().text();
  EXPECT_EQ(plugin_of(*backend)->container, "larder-infinistore");
  EXPECT_FALSE(plugin_of(*backend)->listens());
  EXPECT_EQ(url_of(*backend), "infinistore://i:22345");
}

TEST(ParseBackend, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> bad[] = {
      {"{}", "spec.endpoints: is missing: write HOST:PORT of the server"},
      {"{endpoints: ['a:1'], managed: {memory: 1Gi}}",
       "spec.endpoints: is not for a managed backend"},
      {"{endpoints: ['a:1', 'b:1']}",
       "spec.endpoints: has several items: mode Standalone takes one"},
      {"{type: Memcached, endpoints: ['a:1']}",
       "spec.type: 'Memcached' is not one of: Redis, Mooncake, InfiniStore"},
      {"{type: InfiniStore}", "spec.endpoints: is missing"},
      {"{type: InfiniStore, endpoints: ['a:1', 'b:1']}",
       "spec.endpoints: has several items: type InfiniStore takes one"},
      {"{type: InfiniStore, endpoints: ['a:1'], mooncake: {}}",
       "spec.mooncake: is for type Mooncake"},
      {"{type: InfiniStore, endpoints: ['a:1'], password: {name: s}}",
       "spec.password: is for type Redis"},
      {"{type: InfiniStore, endpoints: ['a:1'], tls: {}}", "spec.tls: is for type Redis"},
      {"{type: InfiniStore, managed: {memory: 1Gi}}", "spec.managed: is for type Redis"},
      {"{endpoints: ['a:1'], mooncake: {}}", "spec.mooncake: is for type Mooncake"},
      {"{type: Mooncake}", "spec.endpoints: is missing"},
      {"{type: Mooncake, endpoints: ['a:1', 'b:1']}",
       "spec.endpoints: has several items: type Mooncake takes one"},
      {"{type: Mooncake, endpoints: ['mooncake://a:1']}",
       "spec.endpoints: 'mooncake://a:1' is not an endpoint"},
      {"{type: Mooncake, managed: {memory: 1Gi}}", "spec.managed: is for type Redis"},
      {"{type: Mooncake, endpoints: ['a:1'], mode: Cluster}", "spec.mode: is for type Redis"},
      {"{type: Mooncake, endpoints: ['a:1'], password: {name: s}}",
       "spec.password: is for type Redis"},
      {"{type: Mooncake, endpoints: ['a:1'], tls: {}}", "spec.tls: is for type Redis"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {protocol: udp}}",
       "spec.mooncake.protocol: 'udp' is not one of: tcp, rdma"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {protocol: rdma}}",
       "spec.mooncake.deviceResource: is missing"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {protocol: rdma, deviceResource: hca}}",
       "spec.mooncake.deviceResource: 'hca' is no resource of a device plugin"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {devices: [mlx5_0]}}",
       "spec.mooncake.devices: is for protocol rdma"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {protocol: rdma, deviceResource: a/b, "
       "devices: ['a,b']}}",
       "spec.mooncake.devices: 'a,b' is no device"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {contribute: 1Mi}}",
       "spec.mooncake.contribute: '1Mi' is out of range: 16Mi to"},
      {"{type: Mooncake, endpoints: ['a:1'], mooncake: {membersFrom: [7]}}",
       "spec.mooncake.membersFrom: holds number: must be objects"},
      {"{endpoints: ['redis://a:1']}",
       "spec.endpoints: 'redis://a:1' is not an endpoint: write HOST:PORT"},
      {"{endpoints: ['a']}", "spec.endpoints: 'a' is not an endpoint: write HOST:PORT"},
      {"{endpoints: ['a:0']}", "spec.endpoints: 'a:0' is not an endpoint"},
      {"{endpoints: ['a:65536']}", "spec.endpoints: 'a:65536' is not an endpoint"},
      {"{endpoints: ['u:p@a:1']}", "spec.endpoints: 'u:p@a:1' is not an endpoint"},
      {"{endpoints: ['::1:6379']}", "spec.endpoints: '::1:6379' is not an endpoint"},
      {"{endpoints: [7]}", "spec.endpoints: holds number: must be strings"},
      {"{endpoints: a}", "spec.endpoints: is string: must be array"},
      {"{mode: sentinel, endpoints: ['a:1']}",
       "spec.mode: 'sentinel' is not one of: Standalone, Sentinel, Cluster"},
      {"{mode: Sentinel, endpoints: ['a:1']}", "spec.master: is missing"},
      {"{mode: Cluster, endpoints: ['a:1'], database: 3}", "spec.database: must be 0"},
      {"{endpoints: ['a:1'], database: -1}", "spec.database: -1 is out of range"},
      {"{endpoints: ['a:1'], password: {key: k}}", "spec.password.name: is missing"},
      {"{endpoints: ['a:1'], user: 'a b'}", "spec.user: 'a b' holds a space"},
      {"{endpoints: ['a:1'], user: u}", "spec.password: is missing: spec.user needs a password"},
      {"{mode: Sentinel, master: m, endpoints: ['a:1'], sentinelUser: u}",
       "spec.sentinelPassword: is missing"},
      {"{managed: {}}", "spec.managed.memory: is missing"},
      {"{managed: {memory: 100Mi}}", "spec.managed.memory: '100Mi' is out of range: 256Mi to"},
      {"{managed: {memory: 1Gi, policy: noeviction}}",
       "spec.managed.policy: 'noeviction' is not one of"}};
  for (const auto& [spec, why] : bad) {
    const Result<CacheBackend> backend = parse(spec);
    ASSERT_FALSE(backend.ok()) << spec;
    EXPECT_THAT(backend.status().text(), StartsWith(why)) << spec;
  }
}

TEST(BackendUrl, MatchesTheFormOfLarderd) {
  const std::pair<const char*, const char*> urls[] = {
      {"{endpoints: ['redis:6379']}", "redis://redis:6379"},
      {"{endpoints: ['[fd00::7]:6379'], database: 2}", "redis://[fd00::7]:6379/2"},
      {"{endpoints: ['r:6379'], user: larder, password: {name: s}, tls: {}}",
       "rediss://larder@r:6379"},
      {"{endpoints: ['r:1'], user: 'a@b/c:d', password: {name: s}}", "redis://a%40b%2Fc%3Ad@r:1"},
      {"{mode: Cluster, endpoints: ['h1:6379', 'h2:6379'], tls: {}}",
       "rediss-cluster://h1:6379,h2:6379"},
      {"{mode: Sentinel, master: m, endpoints: ['s1:1', 's2:2'], database: 1}",
       "redis-sentinel://s1:1,s2:2/m/1"},
      {"{managed: {memory: 1Gi}}", "redis://larder-b.chat.svc:6379"}};
  for (const auto& [spec, url] : urls) {
    const Result<CacheBackend> backend = parse(spec);
    ASSERT_TRUE(backend.ok()) << spec << ": " << backend.status().text();
    EXPECT_EQ(url_of(*backend), url);
  }
}

}  // namespace
}  // namespace larder::api
