// The remote tier and a real Cluster: its slots move, its masters are killed, under load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/topology/slots.h"
#include "tests/component/cluster_processes.h"
#include "tests/component/tier_node.h"

namespace larder::test {
namespace {

using remote::Mode;
using remote::RemoteOptions;
using testing::AllOf;
using testing::HasSubstr;
using tiers::testing_support::key_of;

constexpr std::uint64_t kLarge = 9 << 20;

// Where no master is killed: one that is slow on a busy machine stays master.
const std::vector<std::string> kNobodyTakesOver{"--cluster-node-timeout", "20000"};

RemoteOptions options_of(const ClusterProcesses& cluster) {
  RemoteOptions options;
  options.mode = Mode::kCluster;
  options.endpoints = {cluster.endpoints().front()};
  return patient(options);
}

class RemoteClusterTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
  }
};

std::uint64_t commands(ServerProcess& server, const std::string& name) {
  const std::string text = server.info("commandstats", "cmdstat_" + name);  // calls=12,usec=...
  return text.empty() ? 0 : std::stoull(text.substr(text.find('=') + 1));
}

TEST_P(RemoteClusterTest, ChunksSpreadOverAllMastersAndDropsReachThem) {
  ClusterProcesses cluster(GetParam(), 3);
  Node one(options_of(cluster)), two(options_of(cluster));
  // chance decides the place of a part: of 40 no part is far from every node
  constexpr std::uint64_t kChunks = 8;
  for (std::uint64_t i = 0; i < kChunks; ++i)
    ASSERT_EQ(one.loop.put(i, 5, 1, kLarge).to_string(), "ok");
  EXPECT_EQ(one.tier->state().mode, "Cluster, TCP");
  EXPECT_EQ(cluster.keys(), kChunks * 6);
  std::vector<std::uint64_t> before, records(3);
  for (std::uint64_t i = 0; i < kChunks; ++i)
    ++records[remote::slot_of(remote::record_key("larder", key_of(i))) * std::size_t{3} /
              remote::kSlots];
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GT(cluster.keys(i), records[i]) << "parts are with all nodes";
    before.push_back(commands(cluster.server(i), "get"));
  }
  const std::vector<tiers::ChunkKey> wanted{key_of(0), key_of(3), key_of(kChunks), key_of(1)};
  EXPECT_EQ(two.loop.probe(wanted), (std::vector<bool>{true, true, false, true}));
  for (std::uint64_t i = 0; i < kChunks; ++i)
    EXPECT_EQ(two.loop.get(i, 1, kLarge).to_string(), "ok");
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_GT(commands(cluster.server(i), "get"), before[i]) << "they serve it together";
  // A chunk of another generation leaves no part of the former, at any place; nor does a drop leave
  // a part.
  ASSERT_TRUE(one.loop.put(1, 6, 1, kLarge).ok() && one.loop.put(9, 1, 2).ok());
  EXPECT_TRUE(soon([&] { return cluster.keys() == kChunks * 6 + 2; }));
  EXPECT_EQ(two.loop.get(1, 1, kLarge).to_string(), "ok");
  ASSERT_EQ(one.loop.drop(1).to_string(), "ok");
  EXPECT_EQ(cluster.keys(), 2U);
  EXPECT_EQ(two.loop.get(0, 1, kLarge).code(), Code::kNotFound);
  EXPECT_TRUE(two.loop.get(9, 2).ok());
  ASSERT_TRUE(two.tier->evict(key_of(9, 2)).ok());
  EXPECT_TRUE(two.loop.flush().ok());
  EXPECT_EQ(cluster.keys(), 0U);
  const auto connections_to = [&](std::size_t i) {
    const std::string clients = cluster.server(i).ask({"CLIENT", "LIST"}).text;
    std::size_t ours = 0;
    for (std::size_t at = clients.find("name=larder"); at != std::string::npos;
         at = clients.find("name=larder", at + 1))
      ++ours;
    return ours;
  };
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(soon([&] { return connections_to(i) == 6; }))
        << connections_to(i) << ", not three of each tier";
}

// covers F-188
TEST_P(RemoteClusterTest, ReshardingUnderLoadCausesNoMiss) {
  ClusterProcesses cluster(GetParam(), 3, 1);
  Node node(options_of(cluster));
  constexpr std::uint64_t kChunks = 24;
  for (std::uint64_t i = 0; i < kChunks; ++i)
    ASSERT_EQ(node.loop.put(i, 1, 1, 3 << 20).to_string(), "ok");
  // Every slot with our keys goes to a node without our keys, and comes back to another.
  std::atomic<bool> ended = false;
  std::atomic<std::uint64_t> rounds = 0;
  std::thread resharding([&] {
    for (std::uint64_t i = 0; i < kChunks; ++i) {
      static_cast<void>(soon([&] { return rounds >= i / 2; }));  // not ahead of the load
      const std::uint16_t slot = remote::slot_of(remote::record_key("larder", key_of(i)));
      cluster.move_slot(slot, slot * 3U / remote::kSlots, 3);
    }
    for (std::uint16_t slot = 0; slot < 300; ++slot) cluster.move_slot(slot, 0, 3);
    for (std::uint16_t slot = 0; slot < 100; ++slot) cluster.move_slot(slot, 3, 1);
    ended = true;
  });
  std::uint64_t generation = 1;
  while (!ended) {
    const std::uint64_t number = ++rounds % kChunks;
    EXPECT_EQ(node.loop.get(number, 1, 3 << 20).to_string(), "ok") << number;
    EXPECT_EQ(node.loop.put(number, ++generation, 1, 3 << 20).to_string(), "ok") << number;
    EXPECT_EQ(node.loop.probe(std::vector{key_of(number), key_of(1000 + number)}),
              (std::vector<bool>{true, false}))
        << number;
  }
  resharding.join();
  EXPECT_GE(rounds, kChunks / 2 - 1);
  for (std::uint64_t i = 0; i < kChunks; ++i)
    EXPECT_EQ(node.loop.get(i, 1, 3 << 20).to_string(), "ok") << i;
  EXPECT_FALSE(node.tier->state().degraded());
  EXPECT_GT(cluster.keys(3), 0U);
  ASSERT_EQ(node.loop.drop(1).to_string(), "ok");
  EXPECT_EQ(cluster.keys(), 0U);
}

// covers F-184
TEST_P(RemoteClusterTest, AMasterKilledUnderLoadCostsMissesUntilItsReplicaTakesOver) {
  ClusterProcesses cluster(GetParam(), 3, 0, true);
  Node node(options_of(cluster));
  for (std::uint64_t i = 0; i < 16; ++i)
    ASSERT_EQ(node.loop.put(i, 1, 1, kLarge).to_string(), "ok");
  ASSERT_TRUE(node.loop.put(500).ok() && node.tier->probe(key_of(500)).has_value());
  const std::uint64_t killed = node.clock.now_ns();
  cluster.kill(0);
  // The node in the tier's configuration is gone with the master.
  std::uint64_t back = 0, last_bad = 0, number = 0, good = 0, failed = 0;
  for (const std::uint64_t end = killed + 40 * kSecondNs; node.clock.now_ns() < end && good < 40;) {
    ++number;
    const Status put = node.loop.put(number % 16, number, 1, 3 << 20),
                 got = node.loop.get(number % 16, 1, kLarge);
    ASSERT_NE(got.code(), Code::kInternal) << got.to_string();
    const bool took_over =
        cluster.server(cluster.replica_of(0)).info("replication", "role") == "master";
    if (back == 0 && took_over && cluster.well()) back = node.clock.now_ns();
    const bool both = put.ok() && got.ok();
    ++(both ? good : failed);
    good = both ? good : 0;
    if (!both) {
      node.loop.collect(5);
      last_bad = node.clock.now_ns();
      if (back != 0) {
        ASSERT_LT(node.clock.now_ns() - back, 5 * kSecondNs)
            << put.to_string() << "; " << got.to_string();
      }
    }
  }
  EXPECT_GE(good, 40U);
  EXPECT_FALSE(node.tier->probe(key_of(500)).has_value())
      << "the replica may not have been told of all that was stored";
  EXPECT_GT(failed, 0U);
  RecordProperty("recovery_ms",
                 std::to_string(last_bad <= back ? 0 : (last_bad - back) / 1'000'000));
  for (std::uint64_t i = 0; i < 16; ++i) {
    const Status got = node.loop.get(i, 1, kLarge);
    EXPECT_TRUE(got.ok() || got.code() == Code::kNotFound) << got.to_string();
  }
  ASSERT_EQ(node.loop.clear().to_string(), "ok");
  std::uint64_t left = cluster.keys(cluster.replica_of(0));
  for (const std::size_t i : {1U, 2U}) left += cluster.keys(i);
  EXPECT_EQ(left, 0U);
}

// covers F-189
TEST_P(RemoteClusterTest, FullNodeFailsPutsOfItsKeys) {
  ClusterProcesses cluster(GetParam(), 3);
  Node node(options_of(cluster));
  ASSERT_TRUE(node.loop.put(1, 1, 1, kLarge).ok());
  cluster.server(1).ask({"CONFIG", "SET", "maxmemory", "1mb"});
  std::uint64_t stored = 0, refused = 0;
  for (std::uint64_t i = 10; i < 50; ++i) ++(node.loop.put(i).ok() ? stored : refused);
  EXPECT_GT(stored, 0U) << "the others have room";
  EXPECT_GT(refused, 0U);
  EXPECT_FALSE(node.tier->state().degraded());
  EXPECT_THAT(
      node.tier->state().reason,
      AllOf(HasSubstr("1 of 3 masters of the Cluster take no writes"),
            HasSubstr(":" + std::to_string(cluster.endpoints()[1].port)), HasSubstr("maxmemory")));
  EXPECT_TRUE(node.loop.get(1, 1, kLarge).ok());
  // Of a chunk that cannot be stored as a whole no part is sent: the record would be there, and
  // chance decides the places of the parts.
  const auto is_full = [](std::uint64_t number) {
    return remote::slot_of(remote::record_key("larder", key_of(number))) * 3U / remote::kSlots == 1;
  };
  const auto sets = [&] {
    return commands(cluster.server(0), "set") + commands(cluster.server(2), "set");
  };
  std::uint64_t large = 100;
  while (!is_full(large)) ++large;
  std::uint64_t before = sets();
  EXPECT_EQ(node.loop.put(large, 1, 1, kLarge).code(), Code::kUnavailable);
  EXPECT_EQ(sets(), before);
  // Nor where the record has room, and one of the parts has not: at most puts, of five parts each.
  Status put;
  for (std::uint64_t number = 200; put.ok() && number < 300; ++number) {
    if (is_full(number)) continue;
    before = sets();
    put = node.loop.put(number, 1, 1, kLarge);
  }
  EXPECT_EQ(put.code(), Code::kUnavailable) << put.to_string();
  EXPECT_EQ(sets(), before);
  cluster.server(1).ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(node.eventually([&] { return node.tier->state().reason.empty(); }))
      << node.tier->state().reason;
  EXPECT_EQ(node.loop.put(large, 1, 1, kLarge).to_string(), "ok");
  // All masters: then no put is taken.
  for (std::size_t i = 0; i < 3; ++i) cluster.server(i).ask({"CONFIG", "SET", "maxmemory", "1mb"});
  for (std::uint64_t i = 60; i < 100 && node.tier->state().takes_puts; ++i)
    static_cast<void>(node.loop.put(i));
  EXPECT_TRUE(!node.tier->state().takes_puts && node.tier->state().takes_gets)
      << node.tier->state().reason;
  for (std::size_t i = 0; i < 3; ++i) cluster.server(i).ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(node.well());
}

// covers F-185
TEST_P(RemoteClusterTest, UnreachableMasterCostsItsKeysOnly) {
  ClusterProcesses cluster(GetParam(), 3, 0, false, {"--cluster-require-full-coverage", "no"});
  Node node(options_of(cluster));
  constexpr std::uint64_t kChunks = 60;
  std::vector<tiers::ChunkKey> keys;
  std::vector<bool> all, others;
  for (std::uint64_t i = 0; i < kChunks; ++i) {
    ASSERT_EQ(node.loop.put(i).to_string(), "ok");
    keys.push_back(key_of(i));
    all.push_back(true);
    others.push_back(
        remote::slot_of(remote::record_key("larder", keys.back())) * 3U / remote::kSlots != 1);
  }
  ASSERT_EQ(node.loop.probe(keys), all);
  cluster.kill(1);
  ASSERT_TRUE(node.eventually([&] { return !node.tier->state().reason.empty(); }));
  EXPECT_THAT(node.tier->state().reason, AllOf(HasSubstr("1 of 3 masters of the Cluster are away"),
                                               HasSubstr("no connection")));
  EXPECT_FALSE(node.tier->state().degraded());
  EXPECT_EQ(node.loop.probe(keys), others);
  std::uint64_t got = 0, put = 0;
  const std::uint64_t began = node.clock.now_ns();
  for (std::uint64_t i = 0; i < kChunks; ++i) {
    const Status loaded = node.loop.get(i);
    EXPECT_TRUE(loaded.ok() || loaded.code() == Code::kUnavailable) << loaded.to_string();
    got += loaded.ok();
    put += node.loop.put(i, 2).ok();
  }
  EXPECT_LT(node.clock.now_ns() - began, 20 * kSecondNs) << "an absent node costs no wait";
  EXPECT_GT(got, 0U);
  EXPECT_LT(got, kChunks);
  EXPECT_GT(put, 0U);
  EXPECT_LT(put, kChunks);
  // The node comes back empty.
  cluster.server(1).start();
  EXPECT_TRUE(node.eventually([&] { return node.tier->state().reason.empty(); }))
      << node.tier->state().reason;
  EXPECT_TRUE(soon([&] { return node.loop.probe(keys) == others; }));
  for (std::uint64_t i = 0; i < kChunks; ++i)
    EXPECT_TRUE(soon([&] { return node.loop.put(i, 3).ok(); })) << i;
  EXPECT_EQ(node.loop.probe(keys), all);
}

// covers F-186
TEST_P(RemoteClusterTest, ReplicasServeReadsAndAreNotTrustedForAbsence) {
  ClusterProcesses cluster(GetParam(), 3, 0, true, kNobodyTakesOver);
  RemoteOptions options = options_of(cluster);
  options.read_replicas = true;
  Node node(options);
  constexpr std::uint64_t kChunks = 8;
  for (std::uint64_t i = 0; i < kChunks; ++i)
    ASSERT_EQ(node.loop.put(i, 1, 1, kLarge).to_string(), "ok");
  const auto gets_of = [&](std::size_t master) {
    return commands(cluster.server(cluster.replica_of(master)), "get");
  };
  const auto gets = [&] { return gets_of(0) + gets_of(1) + gets_of(2); };
  const auto all_are_loaded = [&] {
    for (std::uint64_t i = 0; i < kChunks; ++i)
      EXPECT_EQ(node.loop.get(i, 1, kLarge).to_string(), "ok") << i;
  };
  // The tier connects to each replica in its own time: until then the master is read.
  EXPECT_TRUE(soon([&] {
    for (std::uint64_t i = 0; i < kChunks; ++i) static_cast<void>(node.loop.get(i, 1, kLarge));
    return gets_of(0) > 0 && gets_of(1) > 0 && gets_of(2) > 0;
  }));
  const std::uint64_t before = gets(), keys = cluster.keys();
  all_are_loaded();
  EXPECT_GT(gets(), before + kChunks);
  // The replicas have not received the writes yet: missing chunks are there all the same, and stay.
  for (std::size_t i = 0; i < 3; ++i) {
    ServerProcess& replica = cluster.server(cluster.replica_of(i));
    replica.ask({"CONFIG", "SET", "replica-read-only", "no"});
    ASSERT_EQ(replica.ask({"FLUSHALL"}).text, "OK");
  }
  const std::uint64_t asked = gets();
  all_are_loaded();
  EXPECT_GT(gets(), asked);
  EXPECT_EQ(cluster.keys(), keys);
  for (std::size_t i = 0; i < 3; ++i) cluster.kill(cluster.replica_of(i));
  all_are_loaded();
  EXPECT_EQ(node.tier->state().reason, "");
  EXPECT_EQ(node.loop.drop(1).to_string(), "ok");
  EXPECT_EQ(cluster.keys(), 0U);
}

// covers F-186
TEST_P(RemoteClusterTest, ReplicaServingReadsIsPromoted) {
  ClusterProcesses cluster(GetParam(), 3, 0, true);
  RemoteOptions options = options_of(cluster);
  options.read_replicas = true;
  options.endpoints = {cluster.endpoints()[1]};
  Node node(options);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(node.loop.put(i, 1, 1, kLarge).to_string(), "ok");
  cluster.kill(0);
  std::uint64_t good = 0, number = 0;
  EXPECT_TRUE(soon([&] {
    const Status put = node.loop.put(number % 8, 2 + number, 1, kLarge),
                 got = node.loop.get(number++ % 8, 1, kLarge);
    EXPECT_NE(got.code(), Code::kInternal) << got.to_string();
    good = put.ok() && got.ok() ? good + 1 : 0;
    if (good == 0) node.loop.collect(5);
    return good == 30;
  }));
  EXPECT_EQ(node.tier->state().reason, "");
}

// Also during the move of a slot.
TEST_P(RemoteClusterTest, MinimalAclRightsSuffice) {
  ClusterProcesses cluster(GetParam(), 3);
  for (std::size_t i = 0; i < 3; ++i)
    ASSERT_EQ(cluster.server(i)
                  .ask({"ACL", "SETUSER", "kv", "on", ">hunter2", "~larder:*", "+hello", "+ping",
                        "+info", "+get", "+getrange", "+set", "+getdel", "+unlink", "+scan",
                        "+cluster|slots", "+asking"})
                  .text,
              "OK");
  RemoteOptions options = options_of(cluster);
  options.user = "kv";
  options.password_file = cluster.server(0).directory() + "/password";
  std::ofstream(options.password_file) << "hunter2\n";
  Node node(options);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(node.loop.put(i).to_string(), "ok");
  const std::string record = remote::record_key("larder", key_of(3));
  const std::size_t from = remote::slot_of(record) * 3U / remote::kSlots, to = (from + 1) % 3;
  cluster.begin_to_move(remote::slot_of(record), from, to);
  cluster.server(from).ask(
      {"MIGRATE", "127.0.0.1", std::to_string(cluster.endpoints()[to].port), record, "0", "5000"});
  const std::uint64_t before = commands(cluster.server(to), "asking");
  EXPECT_EQ(node.loop.probe(std::vector{key_of(2), key_of(3)}), (std::vector{true, true}));
  EXPECT_GT(commands(cluster.server(to), "asking"), before);
  cluster.move_slot(remote::slot_of(record), from, to);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(node.loop.get(i).ok()) << i;
  EXPECT_EQ(node.loop.drop(1).to_string(), "ok");
  EXPECT_EQ(cluster.keys(), 0U);
}

// At the replicas as well; without +readonly there the tier does not use replicas.
// covers F-187
TEST_P(RemoteClusterTest, MinimalAclRightsSufficeForReplicaReads) {
  ClusterProcesses cluster(GetParam(), 3, 0, true, kNobodyTakesOver);
  const auto each = [&](const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < 3; ++i)
      for (const std::size_t number : {i, cluster.replica_of(i)})
        ASSERT_EQ(cluster.server(number).ask(words).text, "OK");
  };
  each({"ACL", "SETUSER", "kv", "on", ">hunter2", "~larder:*", "+hello", "+ping", "+info", "+get",
        "+getrange", "+set", "+getdel", "+unlink", "+scan", "+cluster|slots", "+asking"});
  RemoteOptions options = options_of(cluster);
  options.read_replicas = true;
  options.user = "kv";
  options.password_file = cluster.server(0).directory() + "/password";
  std::ofstream(options.password_file) << "hunter2\n";
  const auto gets_of = [&](std::size_t master) {
    return commands(cluster.server(cluster.replica_of(master)), "get");
  };
  const auto gets = [&] { return gets_of(0) + gets_of(1) + gets_of(2); };
  {
    Node without(options);
    for (std::uint64_t i = 0; i < 8; ++i)
      ASSERT_EQ(without.loop.put(i, 1, 1, kLarge).to_string(), "ok");
  }
  // The map names a replica once its master knows that the replica has received writes.
  const auto names_replicas = [&](std::size_t number) {
    const remote::Reply map = cluster.server(number).ask({"CLUSTER", "SLOTS"});
    return std::ranges::count_if(map.elements, [](const remote::Reply& range) {
             return range.elements.size() == 4;
           }) == 3;
  };
  ASSERT_TRUE(soon([&] { return names_replicas(0) && names_replicas(1) && names_replicas(2); }));
  {
    Node without(options);
    for (std::uint64_t i = 0; i < 8; ++i)
      EXPECT_EQ(without.loop.get(i, 1, kLarge).to_string(), "ok") << i;
    EXPECT_EQ(without.tier->state().reason, "");
  }
  EXPECT_EQ(gets(), 0U);
  each({"ACL", "SETUSER", "kv", "+readonly"});
  Node with(options);
  EXPECT_TRUE(soon([&] {
    EXPECT_EQ(with.loop.get(0, 1, kLarge).to_string(), "ok");
    return gets() > 0;
  }));
  EXPECT_EQ(with.tier->state().reason, "");
}

// covers F-196
TEST_P(RemoteClusterTest, StandaloneServerIsReportedAsNoCluster) {
  const std::uint16_t port = free_port();
  const ServerProcess alone(GetParam(), {"--port", std::to_string(port), "--bind", "127.0.0.1"});
  RemoteOptions options;
  options.mode = Mode::kCluster;
  options.endpoints = {{"127.0.0.1", port}};
  Node node(options);
  EXPECT_TRUE(node.eventually([&] {
    return node.tier->state().reason.find("not a node of a Cluster") != std::string::npos;
  }));
  // A node that knows no other node, and no slots.
  const std::uint16_t other = free_port();
  const ServerProcess empty(
      GetParam(), {"--port", std::to_string(other), "--bind", "127.0.0.1", "--cluster-enabled",
                   "yes", "--cluster-port", std::to_string(free_port())});
  options.endpoints = {{"127.0.0.1", other}};
  Node early(options);
  EXPECT_TRUE(early.eventually(
      [&] { return early.tier->state().reason.find("CLUSTERDOWN") != std::string::npos; }));
  empty.ask({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  EXPECT_TRUE(early.well()) << early.tier->state().reason;
  EXPECT_TRUE(early.loop.put(1).ok() && early.loop.get(1).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Servers, RemoteClusterTest, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test
