// Namespaces come and go: 20,000 adapters through one engine, 20,000 namespaces through one
// larderd, killed and started again in between. No byte is wrong, and no resource grows: memory,
// files and descriptors of larderd, memory of the engine.
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "tests/component/larderd_process.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/client.h"

namespace larder::test {
namespace {

using client::testing_support::EngineClient;
using client::testing_support::hash_of;
using client::testing_support::hashes_of;
using client::testing_support::PageLayout;

// kWarm: from then on no resource may grow
constexpr std::uint32_t kMany = 20'000, kWarm = 2'000, kLife = 7'000;
constexpr std::uint64_t kSlackKib = 4096;
const PageLayout kSmall{"small", 1, 1, 4096, 0, false, 0};

// The private memory of a process, and the size of larderd's files.
struct Resources {
  std::uint64_t heap_kib = 0, descriptors = 0, files = 0, journal_bytes = 0;
};

Resources resources_of(pid_t pid, const std::string& name = "") {
  Resources resources;
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream status(process + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) resources.heap_kib = std::stoull(line.substr(8));
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(process + "/fd"))
    ++resources.descriptors;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string path = file.path().filename().string();
    if (name.empty() || !path.starts_with(name + ".")) continue;
    ++resources.files;
    if (path.starts_with(name + ".namespaces.")) resources.journal_bytes += file.file_size();
  }
  return resources;
}

void expect_nothing_grew(const Resources& before, const Resources& after) {
  EXPECT_LE(after.heap_kib, before.heap_kib + kSlackKib);
  EXPECT_LE(after.descriptors, before.descriptors + 1);
  EXPECT_LE(after.files, before.files + 1);
  EXPECT_LE(after.journal_bytes, 1ULL << 20);
}

// One engine and its adapters, with a bound of open ones.
class Adapters {
 public:
  explicit Adapters(const std::string& socket) : engine_(socket, kSmall) {
    EXPECT_TRUE(engine_.client->wait_attached(30'000).ok());
  }
  client::Client& client() { return *engine_.client; }

  // Opens adapter `i` in place of the adapter opened first, stores a chunk in `i` and loads the
  // chunk.
  void use(std::uint32_t i) {
    if (open_.size() == protocol::kMaxClientNamespaces - 1) close_first(i % 2 == 0);
    const Result<std::uint32_t> number =
        client().add_namespace("base: made-up\nadapter: " + std::to_string(i) + "\n", "");
    ASSERT_TRUE(number.ok()) << number.status().to_string();
    ASSERT_TRUE(client().wait_namespace(*number, 30'000).ok()) << "adapter " << i;
    open_.push_back({*number, i});
    engine_.engine.fill(0, hash_of(i));
    ASSERT_TRUE(client().store_begin(transfer(*number, i)).ok());
    ASSERT_EQ(client().store_finish(30'000).stored, 1U) << "adapter " << i;
    ASSERT_TRUE(loads(*number, i)) << "adapter " << i;
  }
  bool loads(std::uint32_t number, std::uint32_t i) {
    engine_.engine.wipe();
    client::Completion done;
    const auto loaded = [&] {  // the chunk is there from larderd's answer on
      const Result<std::uint64_t> ticket = client().load(transfer(number, i), 30'000);
      if (ticket.ok()) done = engine_.await(*ticket);
      return ticket.ok() && done.status == Code::kOk;
    };
    return eventually(loaded, 10'000, 0) && engine_.engine.holds(0, hash_of(i));
  }
  // After a restart, which keeps the chunks of all that is open.
  void find_all_again() {
    for (const auto& [number, i] : open_) {
      ASSERT_TRUE(client().wait_namespace(number, 30'000).ok());
      ASSERT_TRUE(loads(number, i)) << "adapter " << i;
    }
  }
  void close_first(bool drop) {
    const auto [number, i] = open_.front();
    open_.pop_front();
    ASSERT_TRUE(client().close_namespace(number, drop).ok());
    const std::vector<protocol::BlockHash> hash{hash_of(i)};
    client::Hashes hashes = hashes_of(hash);
    hashes.ns = number;
    ASSERT_EQ(client().lookups().present(hashes), 0U) << "a closed number is a miss";
  }

 private:
  client::Transfer transfer(std::uint32_t number, std::uint32_t i) const {
    return {number, 0, 0, 0, {hash_of(i)}, {}, engine_.engine.chunk_pages(0)};
  }

  EngineClient engine_;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> open_;  // number, adapter
};

// covers F-100
TEST(ManyNamespaces, TwentyThousandAdaptersOfOneEngineLeakNoResource) {
  LarderdProcess larderd("64MiB");
  Adapters adapters(larderd.socket());
  Resources before, mine;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_NO_FATAL_FAILURE(adapters.use(i));
    if (i == kWarm) before = resources_of(larderd.process().pid(), larderd.name());
    if (i == kWarm) mine = resources_of(::getpid());
    if (i % kLife != kLife - 1) continue;
    const std::uint32_t attachments = adapters.client().state().attachments;
    larderd.kill_and_restart();
    ASSERT_TRUE(eventually([&] { return adapters.client().state().attachments > attachments; }));
    ASSERT_NO_FATAL_FAILURE(adapters.find_all_again());
  }
  expect_nothing_grew(before, resources_of(larderd.process().pid(), larderd.name()));
  expect_nothing_grew(mine, resources_of(::getpid()));
  EXPECT_LE(larderd.status_number({"namespaces"}),
            static_cast<std::int64_t>(protocol::kMaxNamespaces));
}

// Four engines of their own kind each, which come and go; half of their namespaces is dropped, half
// stays until its place is needed.
// covers F-100
TEST(ManyNamespaces, TwentyThousandNamespacesOfOneLarderdLeakNoResource) {
  constexpr std::uint32_t kEngines = 4, kOpenOfOne = 50;
  LarderdProcess larderd("64MiB");
  std::unique_ptr<loop::testing_support::Client> engines[kEngines];
  Resources before;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    auto& engine = engines[i % kEngines];
    if (i / kEngines % kOpenOfOne == 0) {
      engine = std::make_unique<loop::testing_support::Client>(larderd.socket());
      ASSERT_NO_FATAL_FAILURE(engine->attach());
    }
    engine->beat();
    const std::uint32_t handle =
        engine->open_namespace("engine: " + std::to_string(i) + "\n", 4096, nullptr, 100 + i);
    ASSERT_NE(handle, protocol::kNoNamespace) << i;
    const auto grants = engine->reserve(handle, {hash_of(0)});
    ASSERT_EQ(grants.at(0).status, 0U)
        << "namespace " << i << " sees no chunk of the namespace that had its place";
    engine->commit(grants[0], i + 1);
    ASSERT_TRUE(eventually(
        [&] {
          return engine->index().find({hash_of(0), handle, 0, 0}).has_value();
        },
        10'000, 0));
    ASSERT_EQ(engine->index().find({hash_of(0), handle, 0, 0})->root, i + 1);
    if (i % 2 == 0) engine->close_namespace(100 + i, protocol::kCloseDrop);
    if (i == kWarm) before = resources_of(larderd.process().pid(), larderd.name());
    if (i % kLife != kLife - 1) continue;
    larderd.kill_and_restart();
    for (auto& one : engines) {
      one = std::make_unique<loop::testing_support::Client>(larderd.socket());
      ASSERT_NO_FATAL_FAILURE(one->attach());
    }
    EXPECT_EQ(engines[0]->open_namespace("engine: " + std::to_string(i) + "\n", 4096, nullptr, 1),
              engines[1]->open_namespace("engine: " + std::to_string(i) + "\n", 4096, nullptr, 1));
    EXPECT_EQ(engines[0]
                  ->reserve(engines[0]->open_namespace("engine: " + std::to_string(i) + "\n"),
                            {hash_of(0)})
                  .at(0)
                  .status,
              static_cast<std::uint32_t>(protocol::GrantStatus::kPresent))
        << "the chunks stored last are there again";
  }
  expect_nothing_grew(before, resources_of(larderd.process().pid(), larderd.name()));
}

}  // namespace
}  // namespace larder::test
