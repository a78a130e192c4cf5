// Many threads of one client, and two clients, on an arena too small for all: every successful load
// has the right bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::PageLayout;

const PageLayout kSmallPages{"plain", 2, 4, 4096, 0, false, 0};

// 1 MiB: 25 chunks of 36 KiB
class ClientThreadsTest : public loop::testing_support::SidecarTest {};

// One engine a thread pair: a prober beside a thread that stores and loads bytes derived from the
// key alone.
void churn(EngineClient& engine, std::uint32_t seed, std::atomic<std::uint64_t>& loaded,
           std::atomic<std::uint64_t>& wrong) {
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    const std::uint64_t first = random() % 40;
    const std::uint32_t count = 1 + random() % 4;
    if (!engine.present(first, count)) {
      engine.store(first, count);
      continue;
    }
    engine.engine.wipe();
    if (engine.load(first, count).status != Code::kOk) continue;
    ++loaded;
    if (!engine.holds(first, count)) ++wrong;
  }
}

TEST_F(ClientThreadsTest, StoresLoadsAndEvictionsAtOnce) {
  start();
  EngineClient a(config_.socket, kSmallPages), b(config_.socket, kSmallPages);
  ASSERT_TRUE(a.client->wait_attached(5000).ok() && b.client->wait_attached(5000).ok());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> loaded{0}, wrong{0};
  std::thread prober([&] {
    while (!stop) {
      const Transfer t = a.transfer(0, 8);
      a.client->lookups().present(testing_support::hashes_of(t.hashes));
      const auto [hold, held] = a.client->hold(testing_support::hashes_of(t.hashes));
      a.client->report(protocol::EventKind::kRequest, 8, held, 1);
      a.client->release(hold);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::thread other([&] { churn(b, 2, loaded, wrong); });
  churn(a, 1, loaded, wrong);
  other.join();
  stop = true;
  prober.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(loaded, 20U);
  EXPECT_TRUE(wait([&] { return stats().evicted_capacity > 0; }));
}

TEST_F(ClientThreadsTest, SidecarRestartsUnderLoad) {
  start();
  EngineClient a(config_.socket, kSmallPages);
  ASSERT_TRUE(a.client->wait_attached(5000).ok());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> loaded{0}, wrong{0};
  std::thread worker([&] {
    for (std::uint32_t seed = 0; !stop; ++seed) churn(a, seed, loaded, wrong);
  });
  for (unsigned life = 0; life < 3; ++life) {
    ASSERT_TRUE(wait([&] { return a.client->state().attachments == life + 1U; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    this->stop();
    start();
  }
  EXPECT_TRUE(wait([&] { return a.client->state().attachments == 4; }));
  stop = true;
  worker.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace larder::client
