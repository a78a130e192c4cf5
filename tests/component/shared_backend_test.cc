// Two larderd, each with memory of its own, on one real Redis or Valkey: one larderd finds and
// loads the chunks of the other, byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "sidecar/loop/sidecar.h"
#include "tests/component/server_process.h"
#include "tests/eventually.h"
#include "tests/unit/loop/chunk_engine.h"
#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::test {
namespace {

using loop::testing_support::ChunkEngine;
using protocol::ProbeEnd;
using testing::HasSubstr;

const std::string kFingerprint = "engine: vllm\ndtype: bfloat16\n";

// A larderd in a thread, as on a machine of its own, and an attached engine.
class Node {
 public:
  explicit Node(const std::string& server_socket,
                const std::function<void(config::Config&)>& change = {}) {
    char name[] = "/dev/shm/larder-node-XXXXXX";
    directory_ = ::mkdtemp(name);
    config_.memory.size_bytes = 1 << 20;
    config_.memory.directory = directory_;
    config_.socket = directory_ + "/run/node.sock";
    config_.backend.url = "unix://" + server_socket;
    config_.backend.unix_path = server_socket;
    if (change) change(config_);
    start();
  }
  ~Node() {
    stop();
    std::filesystem::remove_all(directory_);
  }

  void start() {
    Result<std::unique_ptr<loop::Sidecar>> sidecar = loop::Sidecar::start(config_, clock_);
    ASSERT_TRUE(sidecar.ok()) << sidecar.status().to_string();
    sidecar_ = std::move(*sidecar);
    loop_ = std::thread([this] { EXPECT_TRUE(sidecar_->run().ok()); });
    ASSERT_TRUE(eventually([this] { return stats().touched_bytes == stats().arena_bytes; }));
    engine_ = std::make_unique<ChunkEngine>(config_.socket, kFingerprint);
    beat_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        engine_->beat();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
  }
  void stop() {
    if (!loop_.joinable()) return;
    beat_ = {};
    engine_.reset();
    sidecar_->stop();
    loop_.join();
    sidecar_.reset();
  }
  // The memory of a new machine.
  void lose_memory() {
    stop();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    start();
  }

  // Like an engine with changed weights.
  void drop() {
    protocol::Encoder drop(protocol::MessageType::kDropNamespace, 0);
    ASSERT_TRUE(engine_->send(drop.append(protocol::DropNamespace{engine_->handle(), 0})).ok());
  }
  // The time until larderd reports the end of all earlier messages of the engine.
  int fence_ms() {
    protocol::Encoder fence(protocol::MessageType::kReserve, 5);
    const auto from = std::chrono::steady_clock::now();
    EXPECT_TRUE(engine_->send(fence.append(protocol::Reserve{engine_->handle(), 0, 0, 0, 0})).ok());
    EXPECT_TRUE(engine_->receive().ok());
    return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::steady_clock::now() - from)
                                .count());
  }

  ChunkEngine& engine() { return *engine_; }
  loop::Sidecar& sidecar() { return *sidecar_; }
  const config::Config& config() const { return config_; }
  stats::Stats stats() const { return sidecar_->snapshot(); }
  void store(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n <= to; ++n) engine_->store(n);
  }
  // All chunks are in the backend, stored by this larderd.
  bool wrote(std::uint64_t chunks) {
    return eventually(
        [&] { return stats().backend.puts >= chunks && stats().backend.write_queue == 0; });
  }
  bool right(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n <= to; ++n)
      if (!engine_->right(n)) return false;
    return true;
  }
  std::string fallback() const {
    for (const stats::Fallback& fallback : stats().fallbacks)
      if (fallback.kind == "backend") return fallback.why;
    return "";
  }

 private:
  std::string directory_;
  config::Config config_;
  base::MonotonicClock clock_;
  std::unique_ptr<loop::Sidecar> sidecar_;
  std::thread loop_;
  std::unique_ptr<ChunkEngine> engine_;
  std::jthread beat_;
};

class SharedBackendTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
    server_ = std::make_unique<ServerProcess>(GetParam());
  }
  std::unique_ptr<ServerProcess> server_;
};

TEST_P(SharedBackendTest, ChunkStoredByOneNodeIsFoundAndLoadedByTheOther) {
  Node one(server_->socket()), two(server_->socket());
  EXPECT_EQ(two.engine().welcome().capabilities & 6,
            protocol::kCapabilityResidency | protocol::kCapabilityShared);
  one.store(1, 8);
  ASSERT_TRUE(one.wrote(8));
  EXPECT_FALSE(two.engine().shown_below(1)) << "no region shows the chunks of others there";
  EXPECT_EQ(two.engine().fetch(1, 1, 8).families, 0U) << "nobody has looked";
  const protocol::Probed probed = two.engine().probe(1, 10);
  EXPECT_EQ(probed.families, 8U);
  EXPECT_EQ(probed.shared, 8U);
  EXPECT_EQ(probed.reason, static_cast<std::uint32_t>(ProbeEnd::kAll));
  EXPECT_GT(probed.read_bytes_per_s, 0U);
  EXPECT_GT(probed.read_latency_ns, 0U);
  const protocol::Fetched fetched = two.engine().fetch(2, 1, 8);
  EXPECT_EQ(fetched.families, 8U);
  EXPECT_EQ(fetched.bytes, 8 * ChunkEngine::kSlotBytes);
  EXPECT_TRUE(two.right(1, 8));
  two.engine().end_fetch(2);
  // In memory now: the backend is not asked.
  const protocol::Probed again = two.engine().probe(1, 8);
  EXPECT_EQ(again.families, 8U);
  EXPECT_EQ(again.shared, 0U);
  EXPECT_EQ(again.read_bytes_per_s, 0U) << "no chunk would be read";
  EXPECT_TRUE(eventually([&] { return two.stats().probes == 2; }));
  EXPECT_EQ(two.stats().probe.total(), 1U);
  EXPECT_EQ(two.stats().backend.place, "unix://" + server_->socket());
}

// A member opens the text with another chunk layout, and its chunk is the first one in the backend.
// covers F-102
TEST_P(SharedBackendTest, AChunkOfAnotherLayoutIsAMissAndIsReplaced) {
  Node one(server_->socket()), two(server_->socket());
  loop::testing_support::Client other(one.config().socket);
  other.attach();
  const std::uint32_t handle = other.open_namespace(kFingerprint, 512);
  ASSERT_NE(handle, one.engine().handle());
  other.commit(other.reserve(handle, {ChunkEngine::hash(1)}).at(0), 7);
  ASSERT_TRUE(one.wrote(1));
  for (Node* node : {&one, &two}) {
    EXPECT_EQ(node->engine().probe(1, 1).families, 0U) << "nobody waits for it";
    EXPECT_EQ(node->engine().fetch(1, 1, 1).families, 0U);
    EXPECT_FALSE(node->engine().find(1));
  }
  two.store(1, 1);
  ASSERT_TRUE(two.wrote(1));
  EXPECT_TRUE(eventually([&] { return one.engine().probe(1, 1).families == 1; }));
  EXPECT_EQ(one.engine().fetch(2, 1, 1).families, 1U);
  EXPECT_TRUE(one.right(1, 1));
}

TEST_P(SharedBackendTest, NamespaceDroppedByOneNodeIsAMissForTheOther) {
  Node one(server_->socket()), two(server_->socket());
  one.store(1, 5);
  ASSERT_TRUE(one.wrote(5));
  EXPECT_EQ(two.engine().probe(1, 5).families, 5U);
  const Result<std::uint64_t> dropped =
      one.sidecar().drop_namespace(protocol::namespace_id(kFingerprint).to_hex(), 5000);
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_EQ(*dropped, 5U);
  EXPECT_EQ(two.engine().fetch(1, 1, 5).families, 0U) << "the known chunks are not there";
  EXPECT_EQ(two.engine().probe(1, 5).families, 0U);
  EXPECT_EQ(one.engine().probe(1, 5).families, 0U);
  one.store(1, 2);
  ASSERT_TRUE(one.wrote(7));
  EXPECT_EQ(two.engine().probe(1, 5).families, 2U) << "stored anew it is shared anew";
}

TEST_P(SharedBackendTest, UnfinishedServerDropIsNotReportedAsDone) {
  Node one(server_->socket());
  one.store(1, 3);
  ASSERT_TRUE(one.wrote(3));
  server_->kill();
  ASSERT_TRUE(eventually([&] { return !one.fallback().empty(); }));
  const Result<std::uint64_t> dropped =
      one.sidecar().drop_namespace(protocol::namespace_id(kFingerprint).to_hex(), 300);
  ASSERT_FALSE(dropped.ok());
  EXPECT_THAT(dropped.status().text(), HasSubstr("not found in the backend"));
  EXPECT_FALSE(one.engine().find(1)) << "gone from memory";
  // The engine need not wait: no chunk of the namespace is found here until the server is back, and
  // the drop is done then.
  EXPECT_LT(one.fence_ms(), 900) << "a waiting request waits for a second";
  server_->start();
  EXPECT_TRUE(eventually([&] { return one.fallback().empty(); }));
  EXPECT_EQ(one.engine().probe(1, 3).families, 0U);
}

// covers F-200
TEST_P(SharedBackendTest, FenceWaitsAtMostASecondForDropOnStoppedServer) {
  Node one(server_->socket());
  one.store(1, 3);
  ASSERT_TRUE(one.wrote(3));
  server_->signal(SIGSTOP);
  one.drop();
  EXPECT_LT(one.fence_ms(), 5000);
  server_->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] {
    return server_->ask({"KEYS", "larder:*:*:*"}).elements.empty();
  })) << "it is done all the same";
  one.store(4, 4);
  EXPECT_TRUE(eventually([&] { return one.engine().probe(4, 4).families == 1; }));
}

// covers F-200
TEST(SharedFenceTest, FenceWaitsAtMostASecondForServerScan) {
  remote::testing_support::FakeServer server(
      [](const remote::testing_support::FakeServer::Words& words) {
        // the drop never ends
        return words[0] == "SCAN" ? std::optional<std::string>("*2\r\n$1\r\n5\r\n*0\r\n")
                                  : std::nullopt;
      });
  Node one(server.socket());
  one.store(1, 1);
  ASSERT_TRUE(one.wrote(1));
  one.drop();
  const int waited_ms = one.fence_ms();
  EXPECT_GT(waited_ms, 500) << "it may be done soon";
  EXPECT_LT(waited_ms, 5000);
  EXPECT_EQ(one.engine().probe(1, 1).families, 0U);
}

TEST_P(SharedBackendTest, EvictRemovesChunksStoredByOtherNodes) {
  Node one(server_->socket()), two(server_->socket());
  one.store(1, 3);
  ASSERT_TRUE(one.wrote(3));
  const std::string id = protocol::namespace_id(kFingerprint).to_hex();
  const auto acted = two.sidecar().act(protocol::Verb::kEvict, id, {ChunkEngine::hash(2)}, 5000);
  ASSERT_TRUE(acted.ok());
  EXPECT_EQ(acted->absent, 1U) << "it did not know of it";
  EXPECT_TRUE(eventually([&] { return two.engine().probe(1, 3).families == 1; }));
}

TEST_P(SharedBackendTest, KilledServerCostsMissesAndIsRefilled) {
  Node one(server_->socket()), two(server_->socket());
  one.store(1, 5);
  ASSERT_TRUE(one.wrote(5));
  server_->kill();
  ASSERT_TRUE(eventually([&] { return !two.fallback().empty() && !one.fallback().empty(); }));
  EXPECT_THAT(two.fallback(), HasSubstr("no connection"));
  const protocol::Probed probed = two.engine().probe(1, 5);
  EXPECT_EQ(probed.families, 0U);
  EXPECT_EQ(probed.reason, static_cast<std::uint32_t>(ProbeEnd::kFailed));
  EXPECT_LT(probed.elapsed_us, 3'000'000U) << "its deadline is 5 s away";
  one.store(6, 7);
  EXPECT_TRUE(eventually([&] { return one.right(1, 7); })) << "memory goes on";
  server_->start();
  ASSERT_TRUE(eventually([&] { return two.fallback().empty() && one.fallback().empty(); }));
  // Another life of the server, empty: all chunks are written anew.
  EXPECT_TRUE(eventually([&] { return two.engine().probe(1, 7).families == 7; }));
  EXPECT_EQ(two.engine().fetch(1, 1, 7).families, 7U);
  EXPECT_TRUE(two.right(1, 7));
}

TEST_P(SharedBackendTest, StoppedServerCostsADeadline) {
  Node one(server_->socket()), two(server_->socket());
  one.store(1, 3);
  ASSERT_TRUE(one.wrote(3));
  ASSERT_EQ(two.engine().probe(1, 3).families, 3U);
  server_->signal(SIGSTOP);
  const protocol::Probed late = two.engine().probe(1, 3, 50);
  EXPECT_EQ(late.families, 0U) << "a chunk in the filter may be gone";
  EXPECT_EQ(late.reason, static_cast<std::uint32_t>(ProbeEnd::kLate));
  EXPECT_GE(late.elapsed_us, 50'000U);
  one.store(4, 20);
  EXPECT_TRUE(eventually([&] { return one.right(4, 20); })) << "a store to memory does not wait";
  server_->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return two.engine().probe(1, 20).families == 20; }));
}

// Absent at the start: no error, and used at once later.
TEST_P(SharedBackendTest, ServerStartedLaterIsUsed) {
  server_->kill();
  Node node(server_->socket());
  ASSERT_TRUE(eventually([&] { return !node.fallback().empty(); }));
  node.store(1, 3);
  EXPECT_TRUE(eventually([&] { return node.right(1, 3); }));
  EXPECT_FALSE(node.stats().backend.takes_puts);
  server_->start();
  EXPECT_TRUE(node.wrote(3));
  EXPECT_TRUE(node.fallback().empty());
}

TEST_P(SharedBackendTest, ChunksOnDiskAreReadThereAndTheRestFromTheBackend) {
  char name[] = "/tmp/larder-shared-disk-XXXXXX";
  const std::string disk = ::mkdtemp(name);
  {
    Node one(server_->socket());
    Node two(server_->socket(), [&](config::Config& config) {
      config.disk.path = disk;
      config.disk.size_bytes = 34 << 20;
      config.disk.write = config::DiskWrite::kThrough;
      config.backend.write = config::BackendWrite::kPopular;
    });
    two.store(1, 4);
    ASSERT_TRUE(eventually([&] { return two.stats().disk.chunks == 4; }));
    EXPECT_EQ(two.stats().backend.puts, 0U) << "seen once";
    one.store(5, 9);
    ASSERT_TRUE(one.wrote(5));
    two.lose_memory();
    const protocol::Probed probed = two.engine().probe(1, 12);
    EXPECT_EQ(probed.families, 9U);
    EXPECT_EQ(probed.shared, 5U);
    EXPECT_TRUE(two.engine().shown_below(1) && !two.engine().shown_below(5));
    EXPECT_EQ(two.engine().fetch(1, 1, 12).families, 9U);
    EXPECT_TRUE(two.right(1, 9));
    EXPECT_TRUE(
        eventually([&] { return two.stats().promoted_bytes == 9 * ChunkEngine::kSlotBytes; }));
    EXPECT_GE(two.stats().disk.gets, 4U) << "and a read that shows the speed";
    EXPECT_GE(two.stats().backend.gets, 5U);
    // Chunks from the backend are for the disk, too.
    EXPECT_TRUE(eventually([&] { return two.stats().disk.chunks == 9; }));
  }
  std::filesystem::remove_all(disk);
}

TEST_P(SharedBackendTest, StopWritesPendingChunks) {
  Node one(server_->socket(),
           [](config::Config& config) { config.backend.write = config::BackendWrite::kEvicted; });
  Node two(server_->socket());
  one.store(1, 5);
  ASSERT_TRUE(eventually([&] { return one.right(1, 5); }));
  EXPECT_EQ(two.engine().probe(1, 5).families, 0U) << "there is room in memory";
  one.stop();
  EXPECT_EQ(two.engine().probe(1, 5).families, 5U);
}

TEST_P(SharedBackendTest, StatusHidesTheUrlUser) {
  Node one(server_->socket(),
           [](config::Config& config) { config.backend.url = "redis://me@cache.example:6379/3"; });
  EXPECT_EQ(one.stats().backend.place, "redis://cache.example:6379/3");
}

TEST_P(SharedBackendTest, PoolsOnOneServerAreIsolated) {
  Node one(server_->socket());
  Node two(server_->socket(), [](config::Config& config) { config.backend.prefix = "other"; });
  one.store(1, 3);
  ASSERT_TRUE(one.wrote(3));
  EXPECT_EQ(two.engine().probe(1, 3).families, 0U);
}

// On the server as in memory: a namespace is the whole text.
TEST_P(SharedBackendTest, NamespacesDifferingInOneFieldAreIsolated) {
  Node one(server_->socket()), two(server_->socket());
  one.store(1, 3);
  ASSERT_TRUE(one.wrote(3));
  for (const std::string other :
       {"engine: vlln\ndtype: bfloat16\n", "engine: vllm\ndtype: float16\n", "engine: vllm\n",
        "engine: vllm\ndtype: bfloat16\nsalt: a\n", "engine: vllm\ndtype: bfloat16"})
    EXPECT_EQ(ChunkEngine(two.config().socket, other).probe(1, 3).families, 0U) << other;
  EXPECT_EQ(ChunkEngine(two.config().socket, kFingerprint).probe(1, 3).families, 3U);
}

TEST_P(SharedBackendTest, InvalidKeyPrefixIsReported) {
  config::Config config;
  char name[] = "/dev/shm/larder-node-XXXXXX";
  config.memory.directory = ::mkdtemp(name);
  config.memory.size_bytes = 1 << 20;
  config.socket = config.memory.directory + "/run/node.sock";
  config.backend.url = "unix:///s";
  config.backend.unix_path = "/s";
  config.backend.prefix = "two words";
  base::MonotonicClock clock;
  const Status refused = loop::Sidecar::start(config, clock).status();
  EXPECT_THAT(refused.text(), testing::StartsWith("backend.prefix: "));
  std::filesystem::remove_all(config.memory.directory);
}

INSTANTIATE_TEST_SUITE_P(
    Servers, SharedBackendTest, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test
