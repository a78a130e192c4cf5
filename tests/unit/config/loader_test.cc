#include "sidecar/config/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sidecar/config/fields.h"
#include "sidecar/config/reference.h"

namespace larder::config {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class LoaderTest : public testing::Test {
 protected:
  LoaderTest()
      : file_(testing::TempDir() + "larder_loader_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml") {}
  ~LoaderTest() override { std::filesystem::remove(file_); }

  Result<Config> load_text(const std::string& yaml, const Environment& environment = {}) {
    std::ofstream(file_) << yaml;
    return load(file_, environment);
  }
  // The error without the name of the file.
  std::string why(const std::string& yaml) {
    const std::string text = load_text(yaml).status().text();
    return text.starts_with(file_) ? text.substr(file_.size()) : text;
  }
  static std::string why_environment(const std::string& name, const std::string& value) {
    return load(std::nullopt, {{name, value}}).status().text();
  }

  const std::string file_;
};

TEST_F(LoaderTest, DefaultsAlone) {
  const Result<Config> config = load(std::nullopt, {});
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->memory.size_bytes, 5ULL << 30);
  EXPECT_EQ(config->socket, "/run/larder/larder.sock");
  EXPECT_EQ(config->http.admin_socket, "/run/larder/larder.admin");
}

TEST_F(LoaderTest, EveryKeyOfTheFile) {
  const Result<Config> config = load_text(
      "pool: a\nsocket: /s/x.sock\nsocket_mode: 0666\ntransfer: sidecar\nlog_level: debug\n"
      "memory:\n  size: 512MiB\n  shm_name: n\n  directory: /d\n  hugepages: 2Mi\n  "
      "hugepage_directory: /h\n  numa: 3\n"
      "  keep_percent: 10\n  keep_on_exit: false\n  on_mismatch: replace\n"
      "disk:\n  path: /disk\n  size: 7GiB\n  write: through\n  ttl: 12h\n  admit_after: 2\n"
      "backend:\n  url: rediss://u@h:7000/3\n  password_file: /b/p\n  ca_file: /b/ca\n  cert_file: "
      "/b/cert\n  key_file: /b/key\n"
      "  server_name: kv.example\n  prefix: kv\n  ttl: 2d\n  write: popular\n  write_rate: 200MiB\n"
      "http:\n  listen: 0.0.0.0:1\n  hosts: n1.example, *.gpu.example\n  admin_socket: /s/adm\n");
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->pool, "a");
  EXPECT_EQ(config->socket, "/s/x.sock");
  EXPECT_EQ(config->socket_mode, 0666U);
  EXPECT_EQ(config->transfer, Transfer::kSidecar);
  EXPECT_EQ(config->log_level, "debug");
  EXPECT_EQ(config->memory.size_bytes, 512ULL << 20);
  EXPECT_EQ(config->memory.shm_name, "n");
  EXPECT_EQ(config->memory.directory, "/d");
  EXPECT_EQ(config->memory.hugepages, Hugepages::k2Mi);
  EXPECT_EQ(config->memory.hugepage_directory, "/h");
  EXPECT_EQ(config->memory.numa, "3");
  EXPECT_EQ(config->memory.keep_percent, 10U);
  EXPECT_FALSE(config->memory.keep_on_exit);
  EXPECT_EQ(config->memory.on_mismatch, OnMismatch::kReplace);
  EXPECT_EQ(config->disk.path, "/disk");
  EXPECT_EQ(config->disk.size_bytes, 7ULL << 30);
  EXPECT_EQ(config->disk.write, DiskWrite::kThrough);
  EXPECT_EQ(config->disk.ttl_s, 43'200U);
  EXPECT_EQ(config->disk.admit_after, 2U);
  EXPECT_EQ(config->backend.url, "rediss://u@h:7000/3");
  EXPECT_TRUE(config->backend.tls);
  EXPECT_EQ(config->backend.hosts, (std::vector<BackendHost>{{"h", 7000}}));
  EXPECT_EQ(config->backend.user, "u");
  EXPECT_EQ(config->backend.database, 3U);
  EXPECT_EQ(config->backend.password_file, "/b/p");
  EXPECT_EQ(config->backend.ca_file, "/b/ca");
  EXPECT_EQ(config->backend.cert_file, "/b/cert");
  EXPECT_EQ(config->backend.key_file, "/b/key");
  EXPECT_EQ(config->backend.server_name, "kv.example");
  EXPECT_EQ(config->backend.prefix, "kv");
  EXPECT_EQ(config->backend.ttl_s, 172'800U);
  EXPECT_EQ(config->backend.write, BackendWrite::kPopular);
  EXPECT_EQ(config->backend.write_bytes_per_s, 200ULL << 20);
  EXPECT_EQ(config->http.listen, "0.0.0.0:1");
  EXPECT_EQ(config->http.hosts, (std::vector<std::string>{"n1.example", "*.gpu.example"}));
  EXPECT_EQ(config->http.admin_socket, "/s/adm");
}

// For any content of the table, the printed YAML gives the same configuration, and so do the
// variables.
TEST_F(LoaderTest, PrintedConfigurationLoadsUnchanged) {
  Config config;
  config.pool = "p";
  config.memory.hugepages = Hugepages::kPrefer2Mi;
  config.memory.size_bytes = 3ULL << 20;
  config.memory.keep_percent = 0;
  config.memory.keep_on_exit = false;
  config.memory.on_mismatch = OnMismatch::kReplace;
  config.disk = {"/d", 9ULL << 30, DiskWrite::kThrough, 90, 15};
  config.backend.url = "rediss://u@[::1]:7000/3";
  config.backend.password_file = "/b/p";
  config.backend.cert_file = config.backend.key_file = "/b/both";
  config.backend.ca_file = "/b/ca";
  config.backend.server_name = "kv.example";
  config.backend.prefix = "kv";
  config.backend.ttl_s = 86'400;
  config.backend.write = BackendWrite::kEvicted;
  config.backend.write_bytes_per_s = 3ULL << 20;
  config.http.listen = "";
  config.http.hosts = {"n1.example", "*.gpu.example"};
  config.http.admin_socket = "/a/b";
  const Result<Config> from_file = load_text(to_yaml(config));
  ASSERT_TRUE(from_file.ok()) << from_file.status().text();
  EXPECT_EQ(to_yaml(*from_file), to_yaml(config));
  Environment environment;
  for (const Field& field : fields()) environment[environment_name(field)] = field.print(config);
  const Result<Config> from_environment = load(std::nullopt, environment);
  ASSERT_TRUE(from_environment.ok()) << from_environment.status().text();
  EXPECT_EQ(to_yaml(*from_environment), to_yaml(config));
  for (const Field& field : fields()) EXPECT_THAT(reference(), HasSubstr(environment_name(field)));
}

TEST_F(LoaderTest, PagesOfOneSizeHaveTwoNames) {
  EXPECT_EQ(load_text("memory: {hugepages: 1GiB}\n")->memory.hugepages, Hugepages::k1Gi);
  EXPECT_EQ(load_text("memory: {hugepages: 1Gi}\n")->memory.hugepages, Hugepages::k1Gi);
  EXPECT_EQ(load_text("memory: {hugepages: 2MiB}\n")->memory.hugepages, Hugepages::k2Mi);
}

// Found by the fuzz target yaml: --check-config once printed these in a form that did not come
// back.
TEST_F(LoaderTest, QuotesAndBackslashesRoundTrip) {
  Config config;
  config.socket = "/run/a\"b\\c";
  config.http.admin_socket = "/run/x";
  const Result<Config> again = load_text(to_yaml(config));
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(again->socket, config.socket);
}

TEST_F(LoaderTest, ShippedFileEqualsTheDefaults) {
  const Result<Config> shipped = load(std::string(SHIPPED_FILE), {});
  ASSERT_TRUE(shipped.ok()) << shipped.status().text();
  EXPECT_EQ(to_yaml(*shipped), to_yaml(*load(std::nullopt, {})));

  // So are the keys in comments, when a user takes the "# " away.
  std::string text;
  std::ifstream file(SHIPPED_FILE);
  for (std::string line; std::getline(file, line); text += line + "\n")
    for (const char* key : {"# socket: ", "# shm_name: ", "# memory.shm_name: ", "# admin_socket: ",
                            "# http.admin_socket: "})
      if (const std::size_t at = line.find(key); at != std::string::npos) line.erase(at, 2);
  const Result<Config> all = load_text(text);
  ASSERT_TRUE(all.ok()) << all.status().text();
  EXPECT_EQ(to_yaml(*all), to_yaml(*load(std::nullopt, {})));
}

TEST_F(LoaderTest, TheEnvironmentWins) {
  const Result<Config> config =
      load_text("memory: {size: 1G}\nlog_level: error\n", {{"LARDER_MEMORY_SIZE", "2G"}});
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->memory.size_bytes, 2ULL << 30);
  EXPECT_EQ(config->log_level, "error");
}

TEST_F(LoaderTest, FileIsNamedByTheEnvironment) {
  std::ofstream(file_) << "pool: from-file\n";
  EXPECT_EQ(load(std::nullopt, {{"LARDER_CONFIG_FILE", file_}})->pool, "from-file");
  EXPECT_THAT(load(std::nullopt, {{"LARDER_CONFIG_FILE", "/nonexistent"}}).status().text(),
              HasSubstr("/nonexistent"));
  EXPECT_EQ(load(file_, {{"LARDER_CONFIG_FILE", "/nonexistent"}})->pool, "from-file");
}

TEST_F(LoaderTest, PathsFollowThePool) {
  const Result<Config> config = load(std::nullopt, {{"LARDER_POOL", "blue"}});
  EXPECT_EQ(config->socket, "/run/larder/blue.sock");
  EXPECT_EQ(config->http.admin_socket, "/run/larder/blue.admin");
  EXPECT_EQ(config->memory.shm_name, "larder-blue");
  EXPECT_EQ(
      load(std::nullopt, {{"LARDER_POOL", "blue"}, {"LARDER_SOCKET", "/x/y"}})->http.admin_socket,
      "/x/y.admin");
}

TEST_F(LoaderTest, UnknownKeyErrorListsAllowedKeys) {
  EXPECT_EQ(why("\nsise: 5G\n"),
            ":2: unknown key 'sise'; allowed: pool, socket, socket_mode, transfer, log_level, "
            "memory, disk, backend, peers, http");
  EXPECT_EQ(why("memory:\n  sise: 5G\n"),
            ":2: unknown key 'memory.sise'; allowed in section 'memory': size, shm_name, "
            "directory, hugepages, "
            "hugepage_directory, numa, keep_percent, keep_on_exit, on_mismatch");
  EXPECT_EQ(why("\nmem:\n  size: 5G\n"),
            ":2: unknown section 'mem'; allowed: pool, socket, socket_mode, transfer, log_level, "
            "memory, disk, backend, peers, http");
  EXPECT_EQ(why("memory: 5G\n"),
            ":1: 'memory' is a section: size, shm_name, directory, hugepages, hugepage_directory, "
            "numa, keep_percent, keep_on_exit, on_mismatch");
  EXPECT_EQ(why("pool:\n  name: x\n"), ":1: 'pool' takes one value and is no section");
}

// covers F-119
TEST_F(LoaderTest, WrongValueErrorListsAllowedValues) {
  EXPECT_EQ(why("memory:\n  size: 0\n"), ":2: memory.size '0' is out of range: 1MiB to 16TiB");
  EXPECT_EQ(why("memory:\n  size: 0GiB\n"),
            ":2: memory.size '0GiB' is out of range: 1MiB to 16TiB");
  EXPECT_EQ(why("memory:\n  size: 17TiB\n"),
            ":2: memory.size '17TiB' is out of range: 1MiB to 16TiB");
  EXPECT_THAT(why("memory:\n  size: 5GB\n"),
              HasSubstr(":2: memory.size '5GB' has unknown unit 'GB'"));
  EXPECT_EQ(why("memory:\n  size: 1.5GiB\n"),
            ":2: memory.size '1.5GiB' is no whole number: take a smaller unit, e.g. 1536MiB");
  EXPECT_THAT(why("memory:\n  size: five\n"), HasSubstr(":2: memory.size 'five' is no size"));
  EXPECT_EQ(why("memory:\n  hugepages: 1G\n"),
            ":2: memory.hugepages '1G' is not one of: none, 2Mi, 1Gi, prefer");
  for (const char* numa : {"all", "-1", "0,1", "12345", "''"})
    EXPECT_THAT(why(std::string("memory:\n  numa: ") + numa + "\n"),
                HasSubstr("is not one of: none, auto, the number of a node"));
  EXPECT_THAT(why("memory:\n  directory: shm\n"),
              HasSubstr(":2: memory.directory 'shm' is no absolute path"));
  EXPECT_THAT(why("memory:\n  hugepage_directory: ''\n"), HasSubstr("is no absolute path"));
  EXPECT_THAT(why("memory:\n  shm_name: a/b\n"), HasSubstr(":2: memory.shm_name 'a/b' is no name"));
  EXPECT_THAT(why("pool: a b\n"), HasSubstr(":1: pool 'a b' is no name"));
  EXPECT_THAT(why("socket: x\n"), HasSubstr(":1: socket 'x' is no absolute path"));
  EXPECT_THAT(why("socket_mode: 7\n"), HasSubstr(":1: socket_mode '7' is no file mode"));
  EXPECT_EQ(why("transfer: both\n"), ":1: transfer 'both' is not one of: shim, sidecar");
  EXPECT_EQ(why("log_level: loud\n"),
            ":1: log_level 'loud' is not one of: debug, info, warning, error");
  EXPECT_THAT(why("http: {listen: 9464}\n"),
              HasSubstr(":1: http.listen '9464' is no address to listen on"));
  EXPECT_THAT(why("http: {admin_socket: x}\n"),
              HasSubstr(":1: http.admin_socket 'x' is no absolute path"));
  EXPECT_EQ(why("socket: /a/b\nhttp: {admin_socket: /a/b}\n"),
            "http.admin_socket and socket are the same path: /a/b");
  EXPECT_THAT(why("socket: /" + std::string(102, 'x') + "\n"),
              EndsWith("xx.admin', which follows socket, is too long for a Unix socket: at most "
                       "107 bytes; set either of them"));
}

// covers F-119
TEST_F(LoaderTest, DiskTierNeedsPathAndSize) {
  EXPECT_TRUE(load(std::nullopt, {})->disk.path.empty()) << "not present unless asked for";
  EXPECT_TRUE(load_text("disk: {path: /d, size: 4GiB}\n").ok());
  EXPECT_EQ(
      why("disk: {path: /d}\n"),
      ":1: disk.path is /d and disk.size is not set: set both or neither, e.g. disk.size: 100GiB");
  EXPECT_EQ(why_environment("LARDER_DISK_SIZE", "4G"),
            "environment: disk.size is 4GiB and disk.path is not set: set both or neither");
  EXPECT_THAT(why("disk:\n  path: d\n"), HasSubstr(":2: disk.path 'd' is no absolute path"));
  EXPECT_EQ(why("disk:\n  size: 65TiB\n"), ":2: disk.size '65TiB' is out of range: at most 64TiB");
  EXPECT_EQ(why("disk:\n  write: never\n"), ":2: disk.write 'never' is not one of: back, through");
  EXPECT_THAT(why("disk:\n  ttl: 12\n"),
              HasSubstr(":2: disk.ttl '12' has no unit of s, m, h or d"));
  for (const char* sights : {"0", "16", "-1", "many", "''"})
    EXPECT_THAT(why(std::string("disk:\n  admit_after: ") + sights + "\n"),
                HasSubstr("is out of range: 1 to 15"))
        << sights;
}

TEST_F(LoaderTest, BackendFollowsItsUrl) {
  const Result<Config> none = load(std::nullopt, {});
  EXPECT_TRUE(none->backend.url.empty() && none->backend.prefix.empty())
      << "not present unless asked for";
  const Result<Config> config =
      load_text("backend: {url: 'unix:///run/redis.sock', write: evicted}\n");
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->backend.unix_path, "/run/redis.sock");
  EXPECT_TRUE(config->backend.hosts.empty());
  EXPECT_EQ(config->backend.write, BackendWrite::kEvicted);
  EXPECT_EQ(load(std::nullopt, {{"LARDER_BACKEND_URL", "redis://h"}})->backend.hosts.front().host,
            "h");
  const Result<Config> taken_back =
      load_text("backend: {url: 'rediss://u@h/3'}\n", {{"LARDER_BACKEND_URL", ""}});
  ASSERT_TRUE(taken_back.ok()) << taken_back.status().text();
  EXPECT_TRUE(taken_back->backend.hosts.empty() && taken_back->backend.user.empty() &&
              !taken_back->backend.tls);
}

TEST_F(LoaderTest, ABackendWithSentinels) {
  const Result<Config> config = load_text(
      "backend:\n  url: redis-sentinel://me@s1,s2:7000/kv/2\n  password_file: /b/p\n  "
      "sentinel_user: watcher\n"
      "  sentinel_password_file: /b/s\n");
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->backend.mode, BackendMode::kSentinel);
  EXPECT_EQ(config->backend.hosts, (std::vector<BackendHost>{{"s1", 26'379}, {"s2", 7000}}));
  EXPECT_EQ(config->backend.sentinel_master, "kv");
  EXPECT_EQ(config->backend.sentinel_user, "watcher");
  EXPECT_EQ(config->backend.sentinel_password_file, "/b/s");
  EXPECT_EQ(to_yaml(*load_text(to_yaml(*config))), to_yaml(*config));
}

TEST_F(LoaderTest, KeysOfABackendFollowThePool) {
  const Environment url{{"LARDER_BACKEND_URL", "redis://h"}};
  EXPECT_EQ(load_text("pool: larder\n", url)->backend.prefix, "larder");
  EXPECT_EQ(load_text("pool: blue\n", url)->backend.prefix, "larder-blue");
  EXPECT_EQ(load_text("pool: blue\nbackend: {prefix: kv}\n", url)->backend.prefix, "kv");
  EXPECT_TRUE(load_text("pool: blue\n")->backend.prefix.empty())
      << "the printed text must come back";
  const std::string longest(63, 'x');
  EXPECT_EQ(load_text("pool: " + longest + "\n", url)->backend.prefix, "larder-" + longest);
}

TEST_F(LoaderTest, ABackendBehindAPlugIn) {
  const Result<Config> config =
      load_text("socket: /run/x/chat.sock\nbackend:\n  url: plugin://a/b?c=d\n");
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->backend.plugin, "plugin");
  EXPECT_EQ(config->backend.plugin_socket, "/run/x/chat.plugin");
  EXPECT_EQ(config->backend.plugin_region_bytes, 256ULL << 20);
  EXPECT_EQ(config->backend.plugin_patience_s, 5U);
  EXPECT_EQ(
      why("backend:\n  url: mooncake://m:50051\n  ttl: 1h\n"),
      ":3: backend.ttl is 1h and backend.url names a plug-in: the plug-in has settings of its "
      "own");
  EXPECT_EQ(why("backend:\n  url: redis://h\n  plugin_patience: 9s\n"),
            ":3: backend.plugin_patience is 9s and backend.url names no plug-in: make it "
            "mooncake://host:port or plugin://...");
  EXPECT_EQ(why("backend:\n  url: mooncake://m:1\n  plugin_region: 1MiB\n"),
            ":3: backend.plugin_region '1MiB' is out of range: whole pages, 32MiB to 64GiB");
  EXPECT_EQ(why("backend:\n  url: mooncake://m:1\n  plugin_patience: 0s\n"),
            ":3: backend.plugin_patience '0s' is out of range: 1s to 10m");
  EXPECT_EQ(why("socket: /a/b\nbackend:\n  url: mooncake://m:1\n  plugin_socket: /a/b\n"),
            "backend.plugin_socket is the path of another socket of larderd: /a/b");
}

// covers F-203
TEST_F(LoaderTest, InvalidBackendSettingsAreRefused) {
  EXPECT_EQ(why("backend:\n  url: http://h\n"),
            ":2: backend.url begins with 'http://', which is not one of: redis://, rediss://, "
            "valkey://, valkeys://, unix://, and for "
            "Sentinels or a Cluster redis-sentinel://, redis-cluster:// and their like; for a "
            "plug-in mooncake://, infinistore://, plugin://");
  EXPECT_EQ(why("backend:\n  prefix: kv\n"),
            ":2: backend.prefix is kv and backend.url is not set: set it, e.g. redis://host:6379");
  EXPECT_EQ(
      why_environment("LARDER_BACKEND_TTL", "12h"),
      "environment: backend.ttl is 12h and backend.url is not set: set it, e.g. redis://host:6379");
  for (const char* key : {"ca_file", "cert_file", "key_file", "server_name"})
    EXPECT_THAT(why("backend:\n  url: redis://h\n  " + std::string(key) + ": /x\n"),
                testing::AnyOf(HasSubstr(":3: backend." + std::string(key) +
                                         " is /x and backend.url is without TLS"),
                               HasSubstr("is neither a host's name")))
        << key;
  EXPECT_EQ(why("backend:\n  url: redis://h\n  server_name: kv\n"),
            ":3: backend.server_name is kv and backend.url is without TLS: make it rediss://");
  EXPECT_EQ(why("backend:\n  url: rediss://h\n  cert_file: /x\n"),
            ":3: backend.cert_file is set and backend.key_file is not: set both or neither");
  EXPECT_EQ(why("backend:\n  url: rediss://h\n  key_file: /x\n"),
            ":3: backend.key_file is set and backend.cert_file is not: set both or neither");
  EXPECT_EQ(why("backend:\n  url: redis://u@h\n"),
            ":2: backend.url names a user and backend.password_file is not set");
  EXPECT_EQ(why("backend:\n  url: redis-cluster://h1,h2\n  ca_file: /x\n"),
            ":3: backend.ca_file is /x and backend.url is without TLS: make it rediss-cluster://");
  EXPECT_EQ(why("backend:\n  url: redis-cluster://h1,h2/3\n"),
            ":2: backend.url names a database: a Cluster has 0 alone");
  EXPECT_EQ(why("backend:\n  url: redis://h\n  sentinel_user: me\n"),
            ":3: backend.sentinel_user is me and backend.url names no Sentinels: make it "
            "redis-sentinel://host:port,.../MASTER");
  EXPECT_EQ(why("backend:\n  url: redis-sentinel://h/m\n  sentinel_user: me\n"),
            ":3: backend.sentinel_user is set and backend.sentinel_password_file is not");
  EXPECT_EQ(why("backend:\n  url: redis://h\n  read_replicas: true\n"),
            ":3: backend.read_replicas is true and backend.url names no Cluster: make it "
            "redis-cluster://");
  EXPECT_THAT(why("backend:\n  read_replicas: 1\n"), HasSubstr("is not one of: true, false"));
  EXPECT_TRUE(load_text("backend:\n  url: redis-cluster://h\n  read_replicas: true\n")
                  ->backend.read_replicas);
  EXPECT_THAT(why("backend:\n  sentinel_user: 'a b'\n"),
              HasSubstr(":2: backend.sentinel_user 'a b' is no user's name"));
  EXPECT_THAT(why("backend:\n  password_file: p\n"),
              HasSubstr(":2: backend.password_file 'p' is no absolute path"));
  EXPECT_THAT(why("backend:\n  server_name: a/b\n"),
              HasSubstr(":2: backend.server_name 'a/b' is neither a host's name nor"));
  EXPECT_THAT(why("backend:\n  prefix: a:b\n"), HasSubstr(":2: backend.prefix 'a:b' is no name"));
  EXPECT_THAT(why("backend:\n  ttl: 12\n"),
              HasSubstr(":2: backend.ttl '12' has no unit of s, m, h or d"));
  EXPECT_EQ(why("backend:\n  write: never\n"),
            ":2: backend.write 'never' is not one of: all, evicted, popular");
  for (const char* rate : {"200K", "1023K", "2TiB"})
    EXPECT_THAT(why(std::string("backend:\n  write_rate: ") + rate + "\n"),
                HasSubstr("is out of range: 0, or 1MiB to 1TiB"))
        << rate;
  EXPECT_THAT(why("backend:\n  write_rate: 200\n"), HasSubstr("has no unit"));
}

// Neither in an error message nor in printed output.
// covers F-204
TEST_F(LoaderTest, APasswordIsNeverRepeated) {
  for (const char* url : {"redis://u:hunter2@h", "redis:/u:hunter2@h", "redis://u:hunter2",
                          "hunter2", "redis://h?hunter2"}) {
    const std::string said = why("backend:\n  url: \"" + std::string(url) + "\"\n") +
                             why_environment("LARDER_BACKEND_URL", url);
    EXPECT_THAT(said, testing::Not(HasSubstr("hunter2"))) << url;
    EXPECT_THAT(said, HasSubstr(":2: backend.url ")) << url;
    EXPECT_THAT(said, HasSubstr("environment: LARDER_BACKEND_URL ")) << url;
  }
  const std::string said = why("backend:\n  password: hunter2\n") +
                           why_environment("LARDER_BACKEND_PASSWORD", "hunter2");
  EXPECT_THAT(
      said,
      HasSubstr(
          "unknown key 'backend.password'; allowed in section 'backend': url, password_file, "));
  EXPECT_THAT(said, testing::Not(HasSubstr("hunter2")));
}

TEST_F(LoaderTest, VariablesAreCheckedLikeTheFile) {
  EXPECT_EQ(why_environment("LARDER_MEMORY_SIZE", "0G"),
            "environment: LARDER_MEMORY_SIZE '0G' is out of range: 1MiB to 16TiB");
  EXPECT_THAT(why_environment("LARDER_MEMORY_SISE", "5G"),
              HasSubstr("environment: unknown variable LARDER_MEMORY_SISE; allowed: "
                        "LARDER_BACKEND_CA_FILE, LARDER_BACKEND_CERT_FILE, "));
  EXPECT_THAT(why_environment("LARDER_DISK_SISE", "5G"),
              HasSubstr("unknown variable LARDER_DISK_SISE"));
  EXPECT_THAT(why_environment("LARDER_HTTP_PORT", "9464"),
              HasSubstr("unknown variable LARDER_HTTP_PORT"));
  EXPECT_THAT(why_environment("LARDER_BACKEND_URI", "redis://h"),
              HasSubstr("unknown variable LARDER_BACKEND_URI"));
}

TEST_F(LoaderTest, ForeignVariablesAreIgnored) {
  const Environment environment{{"LARDER_LIBRARY", "x"},
                                {"LARDER_CACHE", "x"},
                                {"LARDER_TEST_BIN", "x"},
                                {"LARDER_HTTP_SERVICE_HOST", "10.0.0.1"},
                                {"LARDER_HTTP_PORT", "tcp://10.0.0.1:9464"},
                                {"LARDER_HTTP_PORT_9464_TCP_PROTO", "tcp"},
                                {"LARDER_BACKEND_SERVICE_PORT", "6379"},
                                {"LARDER_BACKEND_PORT", "tcp://10.0.0.1:6379"}};
  EXPECT_TRUE(load(std::nullopt, environment).ok())
      << load(std::nullopt, environment).status().text();
}

TEST_F(LoaderTest, MisspeltVariablesAreReported) {
  const Environment environment{{"LARDER_POOOL", "x"},
                                {"LARDER_LOG_LEVLE", "debug"},
                                {"LARDER_POOL", "x"},
                                {"LARDER_MEMORY_SIZE", "5G"},
                                {"LARDERD", "x"},
                                {"HOME", "/"},
                                {"LARDER_CONFIG_FILE", ""},
                                {"LARDER_LIBRARY", "x"},
                                {"LARDER_CACHE", "x"},
                                {"LARDER_TEST_BIN", "x"},
                                {"LARDER_BENCH_PROMPTS", "x"},
                                {"LARDER_SERVICE_HOST", "10.0.0.1"},
                                {"LARDER_PORT", "tcp://10.0.0.1:9464"}};
  EXPECT_THAT(unknown_variables(environment),
              testing::ElementsAre("LARDER_LOG_LEVLE", "LARDER_POOOL"));
  EXPECT_TRUE(load(std::nullopt, environment).ok());
}

}  // namespace
}  // namespace larder::config
