// Command lines of LMCache's server, from LMCache's documentation, imported.
#include "sidecar/ctl/lmcache/lmcache_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/ctl/lmcache/lmcache.h"

namespace larder::ctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::string import(const Words& words, const std::map<std::string, std::string>& environment = {}) {
  const Result<std::vector<LmcacheSetting>> settings = read_lmcache_server(words, environment);
  if (!settings.ok()) return settings.status().text();
  const Result<ImportedLmcache> imported = import_lmcache(*settings);
  return imported.ok() ? imported->yaml : imported.status().text();
}

// The server with one adapter.
std::string with(const std::string& adapter,
                 const std::map<std::string, std::string>& environment = {}) {
  return import({"lmcache", "server", "--l1-size-gb", "20", "--eviction-policy", "LRU",
                 "--l2-adapter", adapter},
                environment);
}

TEST(LmcacheServerTest, MemoryAndChunkSizeAreImported) {
  const std::string yaml = import({"lmcache", "server", "--host", "0.0.0.0", "--port=6555",
                                   "--chunk-size", "512", "--l1-size-gb=100", "--l1-use-hugepages",
                                   "--http-port", "9000", "--max-workers", "4"});
  EXPECT_THAT(yaml, AllOf(HasSubstr("  size: 100GiB\n"), HasSubstr("  hugepages: 2Mi\n"),
                          HasSubstr("\"chunk_tokens\":512"), HasSubstr("listen: 127.0.0.1:9000"),
                          HasSubstr("--max-workers (command line): one event loop")));
}

TEST(LmcacheServerTest, RedisAdapterBecomesABackend) {
  const std::string plain = with(R"({"type": "resp", "host": "127.0.0.1", "port": 6379})");
  EXPECT_THAT(plain, HasSubstr("  url: redis://127.0.0.1:6379\n"));
  const std::string full =
      with(R"({"type": "resp", "host": "redis.internal", "port": 6379, "username": "lmcache", )"
           R"("password": "hunter2", "num_workers": 16, "max_capacity_gb": 50})");
  EXPECT_THAT(full, AllOf(HasSubstr("url: redis://lmcache@redis.internal:6379"),
                          HasSubstr("password_file: "),
                          HasSubstr("set maxmemory and an eviction policy at the server"),
                          Not(HasSubstr("hunter2"))));
}

TEST(LmcacheServerTest, VariablesFillMissingAdapterFields) {
  const std::map<std::string, std::string> variables{
      {"LMCACHE_RESP_HOST", "other"}, {"LMCACHE_RESP_PORT", "7000"}, {"LMCACHE_CHUNK_SIZE", "8"}};
  EXPECT_THAT(with(R"({"type": "resp", "host": "", "port": 6379})", variables),
              AllOf(HasSubstr("url: redis://other:6379"), Not(HasSubstr("no multiple"))));
  EXPECT_THAT(with(R"({"type": "s3", "host": "x"})", variables), Not(HasSubstr("redis://")));
}

TEST(LmcacheServerTest, ValkeyAdaptersBecomeBackends) {
  EXPECT_THAT(with(R"({"type": "valkey", "startup_nodes": "127.0.0.1:6379"})"),
              HasSubstr("url: valkey://127.0.0.1:6379\n"));
  EXPECT_THAT(with(R"({"type": "valkey", "startup_nodes": "a:6379,b:6379", "database_id": 2, )"
                   R"("ttl_seconds": 3600})"),
              AllOf(HasSubstr("url: valkey://a:6379/2\n"), HasSubstr("ttl: 3600s")));
  EXPECT_THAT(
      with(R"({
        "type": "valkey",
        "cluster_mode": true,
        "startup_nodes": "seed1.example.com:6379,seed2.example.com:6379",
        "username": "lmcache",
        "password": "hunter2",
        "tls_enable": true,
        "num_workers": 16
    })"),
      AllOf(
          HasSubstr("url: valkeys-cluster://lmcache@seed1.example.com:6379,seed2.example.com:6379"),
          Not(HasSubstr("hunter2"))));
  EXPECT_THAT(with(R"({"type": "valkey", "startup_nodes": "one:7000", "cluster_mode": true})"),
              HasSubstr("url: valkey-cluster://one:7000\n"));
}

TEST(LmcacheServerTest, FileAdapterBecomesADiskOfItsCapacity) {
  EXPECT_THAT(with(R"({"type": "fs_native", "base_path": "/data/l2", "num_workers": 32, )"
                   R"("use_odirect": true, "max_capacity_gb": 100})"),
              AllOf(HasSubstr("  path: /data/l2\n"), HasSubstr("  size: 100GiB\n")));
  for (const char* capacity : {"", R"(, "max_capacity_gb": 0)", R"(, "max_capacity_gb": 0.0)"})
    EXPECT_THAT(with(R"({"type": "fs", "base_path": "/data/l2")" + std::string(capacity) + "}"),
                AllOf(HasSubstr("set disk.path to /data/l2 and choose disk.size"),
                      Not(HasSubstr("\ndisk:"))))
        << capacity;
}

TEST(LmcacheServerTest, OtherAdaptersAreReported) {
  for (const char* type : {"nixl_store", "s3", "mooncake_store", "raw_block", "aerospike", "dax",
                           "plugin", "of_the_future"})
    EXPECT_THAT(
        with(R"({"type": ")" + std::string(type) +
             R"(", "backend_params": {"file_path": "/x"}, "pool_size": 64})"),
        HasSubstr(
            "# Without counterpart:\n#   --l2-adapter (--l2-adapter): larderd has no tier for " +
            std::string(type)))
        << type;
}

// Two of one kind, and one of each.
TEST(LmcacheServerTest, OneDiskAndOneBackendAreImported) {
  const std::string yaml =
      import({"--l1-size-gb", "1", "--l2-adapter",
              R"({"type":"fs","base_path":"/a","max_capacity_gb":10})", "--l2-adapter",
              R"({"type":"fs","base_path":"/b","max_capacity_gb":20})", "--l2-adapter",
              R"({"type":"resp","host":"h","port":1})", "--l2-adapter", R"({"type":"s3"})"});
  EXPECT_THAT(
      yaml, AllOf(HasSubstr("path: /a\n"), HasSubstr("size: 10GiB"), HasSubstr("url: redis://h:1"),
                  HasSubstr("larderd has no tier for a second disk or backend: fs"),
                  HasSubstr("larderd has no tier for s3"), Not(HasSubstr("/b\n"))));
}

TEST(LmcacheServerTest, MapsInsideAnAdapterAreReportedOnce) {
  EXPECT_THAT(
      with(R"({"type": "resp", "host": "h", "port": 1, "eviction": {"eviction_policy": "LRU", )"
           R"("eviction_ratio": 0.1}})"),
      AllOf(HasSubstr("--l2-adapter.eviction (--l2-adapter): a full tier evicts by itself"),
            Not(HasSubstr("eviction_ratio"))));
}

TEST(LmcacheServerTest, InvalidAdapterIsRefused) {
  for (const char* adapter : {"{}", "[1]", "resp", R"({"type": )", R"({"host": "h"})", ""})
    EXPECT_THAT(with(adapter), HasSubstr("--l2-adapter")) << adapter;
  EXPECT_THAT(with(R"({"type": "resp", "password": "hunter2", )"), Not(HasSubstr("hunter2")));
}

TEST(LmcacheServerTest, InvalidNamesAreReported) {
  EXPECT_THAT(import({"--instance-id", "A/B", "--shm-name", "../x", "--no-such-option", "7"}),
              AllOf(HasSubstr("is no name of a pool"),
                    HasSubstr("is not allowed as memory.shm_name; the default follows pool"),
                    HasSubstr("--no-such-option")));
}

}  // namespace
}  // namespace larder::ctl
