// A client and a real sidecar with a disk: chunks that left memory are seen, fetched, held and
// loaded, and released again.
#include <gtest/gtest.h>

#include "shim/client/client.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::hash_of;
using testing_support::hashes_of;
using testing_support::kPlainLayout;

class ClientLowerTiersTest : public loop::testing_support::SidecarTest {
 protected:
  ClientLowerTiersTest() {
    config_.memory.size_bytes = 32 << 20;
    char name[] = "/tmp/larder-test-disk-XXXXXX";
    disk_ = ::mkdtemp(name);
  }
  ~ClientLowerTiersTest() override {
    stop();
    std::filesystem::remove_all(disk_);
  }
  void start_with_disk() {
    config_.disk.path = disk_;
    config_.disk.size_bytes = 256 << 20;
    config_.disk.write = config::DiskWrite::kThrough;
    start(real_clock_);
  }
  // `count` chunks from 0 on, on the disk and not in memory.
  void store_below(EngineClient& engine, std::uint32_t count) {
    ASSERT_TRUE(engine.client->wait_attached(5000).ok());
    ASSERT_EQ(engine.store(0, count).stored, count);
    ASSERT_TRUE(engine.await_present(0, count));
    ASSERT_TRUE(wait([&] { return stats().disk.chunks == count; }));
    // Others take their place in memory.
    const auto any = [&] {
      for (std::uint32_t i = 0; i < count; ++i)
        if (engine.present(i, 1)) return true;
      return false;
    };
    for (std::uint64_t other = 1000; any(); other += 2) {
      ASSERT_LT(other, 5000U);
      ASSERT_EQ(engine.store(other, 2).stored, 2U);
      ASSERT_TRUE(engine.await_present(other, 2));
    }
  }

  base::MonotonicClock real_clock_;
  std::string disk_;
};

TEST_F(ClientLowerTiersTest, ChunksOnlyOnDiskAreFetchedHeldAndLoaded) {
  start_with_disk();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_NO_FATAL_FAILURE(store_below(engine, 4));
  ASSERT_TRUE(engine.client->lower_tiers().speed().has_value());
  EXPECT_TRUE(engine.client->lower_tiers().speed()->serving);
  const Transfer chunks = engine.transfer(0, 6);
  const Hashes hashes = hashes_of(chunks.hashes);
  EXPECT_EQ(engine.client->lookups().present(hashes), 0U);
  EXPECT_EQ(engine.client->lookups().reachable(hashes), 4U);
  EXPECT_EQ(engine.client->lookups().last_reachable(hashes), 4U);
  const Transfer behind = engine.transfer(2, 2);
  std::vector<protocol::BlockHash> gap{hash_of(100), behind.hashes[0], hash_of(101),
                                       behind.hashes[1], hash_of(102)};
  EXPECT_EQ(engine.client->lookups().last_reachable(hashes_of(gap)), 4U) << "each chunk by itself";
  gap.resize(1);
  EXPECT_EQ(engine.client->lookups().last_reachable(hashes_of(gap)), 0U);

  const Result<std::uint64_t> ticket = engine.client->lower_tiers().fetch(hashes, 10'000);
  ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
  const Result<FetchState> done = engine.client->lower_tiers().fetches().poll(*ticket, 15'000);
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(done->running);
  EXPECT_EQ(done->chunks, 4U);
  EXPECT_EQ(done->reason, protocol::FetchEnd::kAbsent);
  EXPECT_EQ(done->bytes, 4 * engine.engine.group().slot_bytes());
  EXPECT_EQ(engine.client->lookups().present(hashes), 4U);

  const auto [hold, held] = engine.client->hold(hashes);
  EXPECT_EQ(held, 4U);
  engine.client->lower_tiers().fetches().end(*ticket);
  engine.engine.wipe();
  EXPECT_EQ(engine.load(0, 4).status, Code::kOk);
  EXPECT_TRUE(engine.holds(0, 4));
  engine.client->release(hold);
  EXPECT_TRUE(wait([&] { return stats().kept_bytes == 0; })) << "given free";
}

TEST_F(ClientLowerTiersTest, AdapterChunksAreSeenUnderTheirOwnNamespace) {
  start_with_disk();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_NO_FATAL_FAILURE(store_below(engine, 2));
  const Result<std::uint32_t> adapter =
      engine.client->add_namespace("engine: made-up\nadapter: x\n", "");
  ASSERT_TRUE(adapter.ok() && engine.client->wait_namespace(*adapter, 5000).ok());
  const Transfer chunks = engine.transfer(0, 2);
  Hashes hashes = hashes_of(chunks.hashes);
  EXPECT_EQ(engine.client->lookups().reachable(hashes), 2U);
  hashes.ns = *adapter;
  EXPECT_EQ(engine.client->lookups().reachable(hashes), 0U);
}

TEST_F(ClientLowerTiersTest, DroppedChunksAreNotReachable) {
  start_with_disk();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_NO_FATAL_FAILURE(store_below(engine, 2));
  ASSERT_TRUE(engine.client->drop_namespace().ok());
  const Transfer chunks = engine.transfer(0, 2);
  EXPECT_EQ(engine.client->lookups().reachable(hashes_of(chunks.hashes)), 0U)
      << "at once, whether larderd has heard of it or not";
  EXPECT_EQ(engine.client->lookups().last_reachable(hashes_of(chunks.hashes)), 0U);
  ASSERT_TRUE(engine.client->wait_namespace(0, 5000).ok());
  EXPECT_TRUE(
      wait([&] { return engine.client->lookups().reachable(hashes_of(chunks.hashes)) == 0; }));
}

TEST_F(ClientLowerTiersTest, WithoutDiskNoChunkIsReachable) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  ASSERT_EQ(engine.store(0, 2).stored, 2U);
  ASSERT_TRUE(engine.await_present(0, 2));
  const Transfer chunks = engine.transfer(0, 4);
  EXPECT_FALSE(engine.client->lower_tiers().speed().has_value());
  EXPECT_EQ(engine.client->lookups().reachable(hashes_of(chunks.hashes)), 2U);
  EXPECT_EQ(engine.client->lookups().last_reachable(hashes_of(chunks.hashes)), 2U) << "as last()";
  EXPECT_EQ(engine.client->lower_tiers().fetch(hashes_of(chunks.hashes), 100).status().code(),
            Code::kUnsupported);
}

}  // namespace
}  // namespace larder::client
