#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/cache_pool.h"
#include "tests/unit/operator/api/yaml_object.h"

namespace larder::api {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Object smallest() {
  return test::from_yaml(
             "metadata: {namespace: chat, name: main, uid: u-1, generation: 3}\nspec: {memory: "
             "{size: 8Gi}}")
      .at(0);
}

Object with_spec(const std::string& yaml) {
  Object pool = smallest();
  pool["spec"].merge_patch(test::from_yaml(yaml).at(0));
  return pool;
}

TEST(ParsePool, SmallestSpecGetsEveryDefault) {
  const Result<CachePool> pool = parse_pool(smallest());
  ASSERT_TRUE(pool.ok()) << pool.status().text();
  EXPECT_EQ(pool->ns, "chat");
  EXPECT_EQ(pool->name, "main");
  EXPECT_EQ(pool->uid, "u-1");
  EXPECT_EQ(pool->generation, 3);
  EXPECT_EQ(pool->spec.placement, Placement::kSidecar);
  EXPECT_EQ(pool->spec.memory.size_bytes, 8ULL << 30);
  EXPECT_EQ(pool->spec.memory.hugepages, Hugepages::kNone);
  EXPECT_FALSE(pool->spec.disk);
  EXPECT_EQ(pool->spec.backend, "");
  EXPECT_TRUE(pool->spec.engine.flags);
  EXPECT_TRUE(pool->spec.resources.is_null());
  EXPECT_EQ(pool->spec.transfer, Transfer::kShim);
}

TEST(ParsePool, PeersSectionEnablesPeers) {
  EXPECT_FALSE(parse_pool(smallest())->spec.peers);
  EXPECT_FALSE(parse_pool(with_spec("{peers: {enabled: false, fanout: 3}}"))->spec.peers);
  const Result<CachePool> bare = parse_pool(with_spec("{peers: {enabled: true}}"));
  ASSERT_TRUE(bare.ok() && bare->spec.peers);
  EXPECT_TRUE(bare->spec.peers->tls) << "plain TCP only where it is written";
  EXPECT_EQ(bare->spec.peers->fanout, 16);
  EXPECT_EQ(bare->spec.peers->serve_rate_bytes, 0U);
  const Result<CachePool> all =
      parse_pool(with_spec("{peers: {serveRate: 1Gi, fanout: 4, tls: {secretName: mine}}}"));
  ASSERT_TRUE(all.ok() && all->spec.peers);
  EXPECT_EQ(all->spec.peers->serve_rate_bytes, 1ULL << 30);
  EXPECT_EQ(all->spec.peers->fanout, 4);
  EXPECT_EQ(all->spec.peers->tls_secret, "mine");
}

TEST(ParsePool, ReadsEveryField) {
  const Result<CachePool> pool =
      parse_pool(with_spec("{placement: Node, memory: {size: 4Gi, hugepages: 1Gi, numa: '1'}, "
                           "disk: {size: 100Gi, volume: hostPath, hostPath: /mnt/d, ttl: 12h, "
                           "admitAfter: 3, write: through}, backendRef: {name: b, prefix: p}, "
                           "backendWrite: {policy: popular, rate: 200Mi, ttl: 7d}, chunkTokens: "
                           "512, image: i:1, node: {nodeSelector: {gpu: 'yes'}, tolerations: "
                           "[{operator: Exists}]}, engine: {flags: false}}"));
  ASSERT_TRUE(pool.ok()) << pool.status().text();
  EXPECT_EQ(pool->spec.placement, Placement::kNode);
  EXPECT_EQ(pool->spec.memory.hugepages, Hugepages::k1Gi);
  EXPECT_EQ(pool->spec.memory.numa, "1");
  ASSERT_TRUE(pool->spec.disk);
  EXPECT_EQ(pool->spec.disk->host_path, "/mnt/d");
  EXPECT_EQ(pool->spec.disk->admit_after, 3);
  EXPECT_EQ(pool->spec.disk->write, "through");
  EXPECT_EQ(pool->spec.backend, "b");
  EXPECT_EQ(pool->spec.backend_prefix, "p");
  EXPECT_EQ(pool->spec.backend_write.rate_bytes, 200ULL << 20);
  EXPECT_EQ(pool->spec.chunk_tokens, 512);
  EXPECT_FALSE(pool->spec.engine.flags);
  EXPECT_EQ(pool->spec.node.node_selector.at("gpu"), "yes");
  EXPECT_EQ(pool->spec.node.tolerations.size(), 1U);
}

// The field as the user writes it, the fault, and the remedy.
TEST(ParsePool, WrongFieldsAreReported) {
  const std::pair<const char*, const char*> bad[] = {
      {"{memory: {size: 8GB}}",
       "spec.memory.size: '8GB' is no size: write a number with Ki, Mi, Gi or Ti, e.g. 8Gi or "
       "1.5Gi"},
      {"{memory: {size: null}}", "spec.memory.size: is missing: write a size"},
      {"{memory: {size: 7}}", "spec.memory.size: '7' is out of range: 16Mi to 16384Gi"},
      {"{memory: {size: true}}", "spec.memory.size: is boolean: must be quantity"},
      {"{memory: {size: 1.1Gi, hugepages: 2Mi}}",
       "spec.memory.size: '1.1Gi' is no multiple of memory.hugepages"},
      {"{memory: {size: 1Mi}}", "spec.memory.size: '1Mi' is out of range: 16Mi to 16384Gi"},
      {"{memory: {size: 1025Mi, hugepages: 2Mi}}",
       "spec.memory.size: '1025Mi' is no multiple of memory.hugepages"},
      {"{memory: {hugepages: 4Ki}}", "spec.memory.hugepages: '4Ki' is not one of: none, 2Mi, 1Gi"},
      {"{memory: {numa: all}}", "spec.memory.numa: 'all' is not one of"},
      {"{memory: 8Gi}", "spec.memory.size: is missing"},
      {"{placement: node}", "spec.placement: 'node' is not one of: Sidecar, Node"},
      {"{disk: {size: 10Mi}}", "spec.disk.size: '10Mi' is out of range"},
      {"{disk: {size: 10Gi, volume: hostPath, hostPath: mnt}}",
       "spec.disk.hostPath: must be an absolute path"},
      {"{disk: {size: 10Gi, volume: hostPath, hostPath: /mnt}}",
       "spec.disk.volume: hostPath is for placement Node"},
      {"{placement: Node, disk: {size: 10Gi, volume: ephemeral}}",
       "spec.disk.volume: ephemeral is for placement Sidecar"},
      {"{disk: {size: 10Gi, ttl: 12}}", "spec.disk.ttl: is number: must be string"},
      {"{disk: {size: 10Gi, ttl: 12w}}", "spec.disk.ttl: '12w' is no duration"},
      {"{disk: {size: 10Gi, ttl: 99999d}}", "spec.disk.ttl: '99999d' is no duration"},
      {"{disk: {size: 10Gi, admitAfter: 16}}", "spec.disk.admitAfter: 16 is out of range: 1 to 15"},
      {"{backendRef: {}}", "spec.backendRef.name: is missing"},
      {"{backendWrite: {rate: 10}}", "spec.backendWrite.rate: '10' is out of range"},
      {"{backendWrite: {rate: 10Ki}}", "spec.backendWrite.rate: '10Ki' is out of range"},
      {"{peers: {fanout: 17}}", "spec.peers.fanout: 17 is out of range: 1 to 16"},
      {"{peers: {fanout: 0}}", "spec.peers.fanout: 0 is out of range"},
      {"{peers: {serveRate: 10}}", "spec.peers.serveRate: '10' is out of range"},
      {"{peers: {enabled: 'yes'}}", "spec.peers.enabled: is string: must be boolean"},
      {"{peers: {tls: {enabled: false, secretName: a}}}",
       "spec.peers.tls.secretName: is set and tls.enabled is false"},
      {"{chunkTokens: 8}", "spec.chunkTokens: 8 is out of range"},
      {"{engine: {flags: 'yes'}}", "spec.engine.flags: is string: must be boolean"},
      {"{node: {tolerations: {}}}", "spec.node.tolerations: is object: must be array"},
      {"{image: \"a\\nb\"}", "spec.image: holds a control character"},
      {"{resources: {limits: {memory: 8Gi}}}",
       "spec.resources.limits.memory: '8Gi' is below the need of memory.size: remove the limit, or "
       "set at least 8576Mi"},
      {"{resources: {limits: {memory: 20Gi}, requests: {memory: 21Gi}}}",
       "spec.resources.requests.memory: '21Gi' is above the limit, 20Gi"},
      {"{resources: {requests: {memory: 9Gi}}}",
       "spec.resources.requests.memory: '9Gi' is above the limit"},
      {"{resources: {limits: {cpu: 500m}, requests: {cpu: 1}}}",
       "spec.resources.requests.cpu: '1' is above the limit, 500m"},
      {"{resources: {limits: {cpu: many}}}", "spec.resources.limits.cpu: 'many' is no size"}};
  for (const auto& [spec, why] : bad) {
    const Result<CachePool> pool = parse_pool(with_spec(spec));
    ASSERT_FALSE(pool.ok()) << spec;
    EXPECT_EQ(pool.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(pool.status().text(), StartsWith(why)) << spec;
  }
}

TEST(ParsePool, ReadsInjectionSettings) {
  const Result<CachePool> pool =
      parse_pool(with_spec("{injection: {userIds: Platform, payloadResources: {limits: {memory: "
                           "96Mi}}, labels: {example.com/team: chat, empty: ''}, "
                           "annotations: {a: 'b c'}}}"));
  ASSERT_TRUE(pool.ok()) << pool.status().text();
  EXPECT_EQ(pool->spec.injection.user_ids, UserIdSource::kPlatform);
  EXPECT_EQ(pool->spec.injection.payload_resources["limits"]["memory"], "96Mi");
  EXPECT_EQ(pool->spec.injection.labels["example.com/team"], "chat");
  EXPECT_EQ(pool->spec.injection.annotations["a"], "b c");
  EXPECT_EQ(parse_pool(smallest())->spec.injection.user_ids, UserIdSource::kAuto);
  EXPECT_TRUE(parse_pool(smallest())->spec.injection.labels.is_null());
}

// A pod with such a label is refused by the API server.
TEST(ParsePool, InvalidInjectionSettingsAreReported) {
  const std::pair<const char*, const char*> bad[] = {
      {"{userIds: auto}", "spec.injection.userIds: 'auto' is not one of: Auto, Platform"},
      {"{labels: {'a b': c}}", "spec.injection.labels.a b: is no key"},
      {"{labels: {a/b/c: d}}", "spec.injection.labels.a/b/c: is no key"},
      {"{labels: {-a: d}}", "spec.injection.labels.-a: is no key"},
      {"{labels: {A.example/b: d}}", "spec.injection.labels.A.example/b: is no key"},
      {"{labels: {larder.dev/pool: d}}",
       "spec.injection.labels.larder.dev/pool: is a key of Larder's own"},
      {"{labels: {a: 7}}", "spec.injection.labels.a: must be text"},
      {"{labels: {a: 'b c'}}", "spec.injection.labels.a: has a value that no label can have"},
      {"{annotations: {larder.dev/config: d}}",
       "spec.injection.annotations.larder.dev/config: is a key of Larder's own"},
      {"{annotations: []}", "spec.injection.annotations: is array: must be object"},
      {"{payloadResources: {limits: {memory: 16Mi}}}",
       "spec.injection.payloadResources.limits.memory: '16Mi' is below the need of the copy: "
       "remove the limit, or set at least 32Mi"},
      {"{payloadResources: {requests: {cpu: 2}, limits: {cpu: 1}}}",
       "spec.injection.payloadResources.requests.cpu: '2' is above the limit, 1"}};
  for (const auto& [injection, why] : bad) {
    const Result<CachePool> pool =
        parse_pool(with_spec(std::string("{injection: ") + injection + "}"));
    ASSERT_FALSE(pool.ok()) << injection;
    EXPECT_THAT(pool.status().text(), StartsWith(why)) << injection;
  }
}

TEST(ParsePool, MalformedObjectsThrowNothing) {
  for (const char* text :
       {"null", "[]", "{}", "{\"spec\":[]}", "{\"spec\":{\"memory\":[]}}",
        "{\"spec\":{\"memory\":{\"size\":{}}}}",
        "{\"metadata\":7,\"spec\":{\"memory\":{\"size\":\"1Gi\"},\"resources\":{\"limits\":[]}}}"})
    static_cast<void>(parse_pool(*parse_json(text)));
}

TEST(ParsePool, SizesAreQuantities) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"1.5Gi", 3ULL << 29},        {"0.5Ti", 1ULL << 39},  {"8589934592", 8ULL << 30},
      {"'8589934592'", 8ULL << 30}, {"2e9", 2'000'000'000}, {"4G", 4'000'000'000}};
  for (const auto& [written, bytes] : good) {
    const std::string size = written;
    const Result<CachePool> pool =
        parse_pool(with_spec("{memory: {size: " + size + "}, disk: {size: " + size +
                             "}, backendWrite: {rate: " + size + "}}"));
    ASSERT_TRUE(pool.ok()) << size << pool.status().text();
    EXPECT_EQ(pool->spec.memory.size_bytes, bytes) << size;
    EXPECT_EQ(pool->spec.disk->size_bytes, bytes) << size;
    EXPECT_EQ(pool->spec.backend_write.rate_bytes, bytes) << size;
  }
}

TEST(ParsePool, AMemoryLimitMayBeANumber) {
  EXPECT_TRUE(parse_pool(with_spec("{resources: {limits: {memory: 20000000000}}}")).ok());
  EXPECT_FALSE(parse_pool(with_spec("{resources: {limits: {memory: 2000000000}}}")).ok());
}

TEST(OwnMemory, HugePagesAreExcludedFromTheMemoryLimit) {
  const CachePool small = *parse_pool(smallest());
  const CachePool huge = *parse_pool(with_spec("{memory: {hugepages: 2Mi}}"));
  EXPECT_EQ(least_memory_limit(small.spec) - least_memory_limit(huge.spec),
            small.spec.memory.size_bytes);
  EXPECT_GE(least_memory_limit(huge.spec), own_memory_bytes(huge.spec));
  EXPECT_EQ(least_memory_limit(huge.spec) % (1 << 20), 0U);
  EXPECT_GT(own_memory_bytes(parse_pool(with_spec("{disk: {size: 1Ti}}"))->spec),
            own_memory_bytes(small.spec));
}

}  // namespace
}  // namespace larder::api
