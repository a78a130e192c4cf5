// Two larderd, run like a user's, on one real Cluster or on a master under Sentinels, with TLS and
// without. One larderd loads the stored chunks of the other, byte by byte, also after a kill of a
// master.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/component/certificates.h"
#include "tests/component/cluster_processes.h"
#include "tests/component/larderd_process.h"
#include "tests/unit/loop/chunk_engine.h"

namespace larder::test {
namespace {

using loop::testing_support::ChunkEngine;
using testing::AllOf;
using testing::HasSubstr;

const std::string kFingerprint = "engine: vllm\ndtype: bfloat16\n";
constexpr std::uint64_t kChunks = 40;

std::string hosts_of(const std::vector<remote::Endpoint>& endpoints) {
  std::string hosts;
  for (const remote::Endpoint& endpoint : endpoints)
    hosts += (hosts.empty() ? "" : ",") + remote::text_of(endpoint);
  return hosts;
}

// A larderd with memory of its own, and an attached engine.
class Node {
 public:
  explicit Node(const std::string& backend)
      : larderd_("16MiB", "warning", LARDERD_PATH, "backend:\n" + backend),
        engine_(larderd_.socket(), kFingerprint) {
    beat_ = std::jthread([this](const std::stop_token& stop) {
      for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(100)))
        engine_.beat();
    });
  }
  ChunkEngine& engine() { return engine_; }
  std::string said(const std::string& name) const {
    return larderd_.status_text({"backend", name});
  }
  bool says(const std::string& name, const std::string& text) const {
    return eventually([&] { return said(name).find(text) != std::string::npos; });
  }
  bool well() const {
    return eventually([&] {
      return larderd_.status_text({"backend", "url"}) != "" && said("reason").empty();
    });
  }
  void store(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n <= to; ++n) engine_.store(n);
  }
  bool wrote(std::int64_t chunks) const {
    return eventually([&] { return larderd_.status_number({"backend", "puts", "ok"}) >= chunks; });
  }
  // Whether this one chunk was there and was loaded; wrong bytes fail the test.
  bool loads(std::uint64_t n) {
    if (engine_.probe(n, n).families != 1) return false;
    const bool loaded = engine_.fetch(++request_, n, n).families == 1;
    EXPECT_TRUE(!loaded || engine_.right(n)) << n << ": wrong bytes";
    engine_.end_fetch(request_);
    return loaded;
  }

 private:
  LarderdProcess larderd_;
  ChunkEngine engine_;
  std::uint32_t request_ = 1000;
  std::jthread beat_;
};

struct Kind {
  const char* server;
  bool tls;
};

class SharedModesTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (server_program(GetParam().server).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
    if (!GetParam().tls) return;
    files_.authority("ca");
    files_.certificate("server", "ca", "IP:127.0.0.1");
  }
  const Certificates* tls() const { return GetParam().tls ? &files_ : nullptr; }
  // The lines of a configuration.
  std::string backend(const std::string& mode, const std::string& rest) const {
    const std::string ca = GetParam().tls ? "  ca_file: " + files_.file("ca.crt") + "\n" : "";
    return "  url: " + std::string(GetParam().tls ? "rediss-" : "redis-") + mode + "://" + rest +
           "\n" + ca;
  }
  void share(Node& one, Node& two) const {
    ASSERT_TRUE(one.well() && two.well()) << one.said("reason") << two.said("reason");
    one.store(1, kChunks);
    ASSERT_TRUE(one.wrote(kChunks)) << one.said("reason");
    EXPECT_EQ(two.engine().probe(1, kChunks + 2).families, kChunks);
    EXPECT_EQ(two.engine().fetch(1, 1, kChunks).families, kChunks);
    for (std::uint64_t n = 1; n <= kChunks; ++n) EXPECT_TRUE(two.engine().right(n)) << n;
    two.engine().end_fetch(1);
  }
  // New chunks come through again, and no found chunk has other bytes.
  void goes_on(Node& one, Node& two) const {
    std::uint64_t next = 1000;
    EXPECT_TRUE(eventually(
        [&] {
          one.store(next, next);
          const std::uint64_t stored = next++;
          return eventually([&] { return two.loads(stored); }, 500);
        },
        40'000));
    ASSERT_TRUE(one.well() && two.well()) << one.said("reason") << two.said("reason");
    Node third(backend_);
    ASSERT_TRUE(third.well());
    std::uint64_t there = 0;
    for (std::uint64_t n = 1; n <= kChunks; ++n) there += third.loads(n) ? 1 : 0;
    EXPECT_GT(there, 0U);
    one.store(2000, 2009);
    for (std::uint64_t n = 2000; n < 2010; ++n)
      EXPECT_TRUE(eventually([&] { return third.loads(n); })) << n;
  }

  const Certificates files_;
  std::string backend_;
};

// covers F-184
TEST_P(SharedModesTest, ClusterFailoverKeepsSharing) {
  ClusterProcesses cluster(GetParam().server, 3, 0, true, {}, tls());
  backend_ = backend("cluster", hosts_of({cluster.endpoints()[0], cluster.endpoints()[1]}));
  Node one(backend_), two(backend_);
  share(one, two);
  EXPECT_EQ(one.said("mode"), GetParam().tls ? "Cluster, TLS" : "Cluster, TCP");
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_GT(cluster.keys(i), 0U) << "the chunks are spread over all masters";
  // No replica takes over before the report of the lost master.
  ServerProcess& replica = cluster.server(cluster.replica_of(0));
  ASSERT_EQ(replica.ask({"CONFIG", "SET", "cluster-replica-no-failover", "yes"}).text, "OK");
  cluster.kill(0);
  EXPECT_TRUE(one.says("reason", "1 of 3 masters of the Cluster are away")) << one.said("reason");
  ASSERT_EQ(replica.ask({"CONFIG", "SET", "cluster-replica-no-failover", "no"}).text, "OK");
  goes_on(one, two);
}

// covers F-194
TEST_P(SharedModesTest, SentinelFailoverKeepsSharing) {
  SentinelProcesses servers(GetParam().server, {}, tls());
  backend_ = backend("sentinel", hosts_of(servers.endpoints()) + "/" + SentinelProcesses::kMaster);
  Node one(backend_), two(backend_);
  share(one, two);
  EXPECT_EQ(two.said("mode"), GetParam().tls ? "Sentinel, TLS" : "Sentinel, TCP");
  // The Sentinels name no other master before the report of the lost one.
  const auto let_it_be_away_for = [&servers](const std::string& ms) {
    for (std::size_t i = 0; i < 3; ++i)
      ASSERT_EQ(
          servers.sentinel(i)
              .ask({"SENTINEL", "SET", SentinelProcesses::kMaster, "down-after-milliseconds", ms})
              .text,
          "OK");
  };
  let_it_be_away_for("60000");
  servers.server(0).kill();
  EXPECT_TRUE(two.says("reason", "no connection")) << two.said("reason");
  let_it_be_away_for("1000");
  goes_on(one, two);
  EXPECT_EQ(servers.server(1).info("replication", "role"), "master");
}

// covers F-183
TEST_P(SharedModesTest, WrongModeIsReported) {
  const std::uint16_t port = free_port(), bus = free_port(), alone = free_port();
  std::vector<std::string> arguments = listening(port, tls());
  arguments.insert(arguments.end(),
                   {"--cluster-enabled", "yes", "--cluster-port", std::to_string(bus)});
  const ServerProcess node(GetParam().server, arguments),
      standalone(GetParam().server, listening(alone, tls()));
  const auto at = [](std::uint16_t where) { return "127.0.0.1:" + std::to_string(where); };
  std::string plain = backend("", at(port));
  plain.erase(plain.find("-:"), 1);  // redis://
  EXPECT_TRUE(Node(plain).says(
      "reason", "a node of a Cluster, not a standalone one: backend.url is redis-cluster://"))
      << plain;
  EXPECT_TRUE(Node(backend("cluster", at(alone)))
                  .says("reason", "a standalone one, not a node of a Cluster"));
  EXPECT_TRUE(Node(backend("sentinel", at(alone) + "/pool"))
                  .says("reason", "no Sentinel but one that keeps data"));
  EXPECT_TRUE(Node(backend("sentinel", at(port) + "/pool"))
                  .says("reason", "no Sentinel but a node of a Cluster"));
}

class SharedModesTlsTest : public SharedModesTest {};

// Another authority than theirs: no connection, and why, in each mode.
// covers F-182
TEST_P(SharedModesTlsTest, CertificateOfUnknownAuthorityIsReported) {
  ClusterProcesses cluster(GetParam().server, 3, 0, false, {}, tls());
  SentinelProcesses servers(GetParam().server, {}, tls());
  files_.authority("ca");
  EXPECT_TRUE(
      Node(backend("cluster", hosts_of(cluster.endpoints()))).says("reason", "certificate"));
  EXPECT_TRUE(Node(backend("sentinel", hosts_of(servers.endpoints()) + "/pool"))
                  .says("reason", "certificate"));
}

std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  const std::string name = kind.param.server;
  return name.substr(0, name.find('-')) + (kind.param.tls ? "_tls" : "");
}
INSTANTIATE_TEST_SUITE_P(Servers, SharedModesTest,
                         testing::Values(Kind{"redis-server", false}, Kind{"redis-server", true},
                                         Kind{"valkey-server", false}, Kind{"valkey-server", true}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Servers, SharedModesTlsTest,
                         testing::Values(Kind{"redis-server", true}, Kind{"valkey-server", true}),
                         name_of);

}  // namespace
}  // namespace larder::test
