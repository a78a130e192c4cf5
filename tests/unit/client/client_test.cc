// A client and a real sidecar as threads of one process: stored chunks are found, shared, held and
// loaded.
#include "shim/client/client.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::hash_of;
using testing_support::hashes_of;
using testing_support::kPlainLayout;
using testing_support::page_layouts;
using testing_support::PageLayout;

class ClientTest : public loop::testing_support::SidecarTest {
 protected:
  ClientTest() { config_.memory.size_bytes = 32 << 20; }
};

class ClientLayoutTest : public ClientTest, public testing::WithParamInterface<PageLayout> {};

TEST_P(ClientLayoutTest, StoredChunksAreLoaded) {
  start();
  EngineClient engine(config_.socket, GetParam());
  ASSERT_TRUE(engine.status.ok()) << engine.status.to_string();
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  const std::uint32_t count = std::min(4U, engine.engine.chunks());
  const StoreResult stored = engine.store(10, count);
  EXPECT_EQ(stored.stored, count);
  EXPECT_EQ(stored.bytes, count * engine.engine.group().payload_bytes());
  ASSERT_TRUE(engine.await_present(10, count));

  engine.engine.wipe();
  const Completion done = engine.load(10, count);
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_EQ(done.bytes, stored.bytes);
  EXPECT_TRUE(engine.holds(10, count));
  EXPECT_TRUE(engine.engine.gaps_untouched());
  EXPECT_EQ(engine.store(10, count).present, count) << "a chunk is stored once";
}

INSTANTIATE_TEST_SUITE_P(Layouts, ClientLayoutTest, testing::ValuesIn(page_layouts()),
                         [](const auto& layout) { return layout.param.name; });

TEST_F(ClientTest, TwoEnginesShare) {
  start();
  EngineClient writer(config_.socket, kPlainLayout), reader(config_.socket, kPlainLayout);
  ASSERT_TRUE(writer.client->wait_attached(5000).ok() && reader.client->wait_attached(5000).ok());
  EXPECT_EQ(writer.store(0, 3).stored, 3U);
  ASSERT_TRUE(reader.await_present(0, 3));
  EXPECT_EQ(reader.load(0, 3).status, Code::kOk);
  EXPECT_TRUE(reader.holds(0, 3));
}

TEST_F(ClientTest, OtherNamespaceMissesAndLogsTheDifference) {
  start();
  EngineClient one(config_.socket, kPlainLayout, copy::host_copy_engine(), "dtype: bf16\n");
  ASSERT_TRUE(one.client->wait_attached(5000).ok());
  one.store(0, 1);
  ASSERT_TRUE(one.await_present(0, 1));
  EngineClient other(config_.socket, kPlainLayout, copy::host_copy_engine(), "dtype: fp8\n");
  ASSERT_TRUE(other.client->wait_attached(5000).ok());
  EXPECT_FALSE(other.present(0, 1));
  EXPECT_EQ(other.load(0, 1).status, Code::kNotFound);
  std::string lines;
  while (const auto line = other.client->next_log()) lines += *line + "\n";
  EXPECT_NE(lines.find("dtype"), std::string::npos) << lines;
}

TEST_F(ClientTest, LookupCountsFromTheFirstChunk) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  engine.store(0, 3);
  ASSERT_TRUE(engine.await_present(0, 3));
  EXPECT_EQ(engine.client->lookups().present(
                hashes_of({hash_of(0), hash_of(1), hash_of(99), hash_of(2)})),
            2U);
  EXPECT_EQ(engine.client->lookups().present(hashes_of({hash_of(99), hash_of(0)})), 0U);
  EXPECT_EQ(engine.client->lookups().present(hashes_of({})), 0U);
}

TEST_F(ClientTest, AHeldChunkIsNotEvicted) {
  config_.memory.size_bytes = 1 << 20;  // about 7 chunks of 132 KiB
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  engine.store(0, 2);
  ASSERT_TRUE(engine.await_present(0, 2));
  const auto [hold, held] = engine.client->hold(hashes_of({hash_of(0), hash_of(1)}));
  EXPECT_EQ(held, 2U);
  for (std::uint64_t first = 10; first < 60; first += 4) engine.store(first, 4);
  EXPECT_TRUE(engine.present(0, 2));
  EXPECT_TRUE(wait([&] { return stats().evicted_capacity > 0; }));
  engine.client->release(hold);
  for (std::uint64_t first = 100; first < 160; first += 4) engine.store(first, 4);
  EXPECT_FALSE(engine.present(0, 1));
}

TEST_F(ClientTest, DropNamespaceDropsIt) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  engine.store(0, 2);
  ASSERT_TRUE(engine.await_present(0, 2));
  EXPECT_TRUE(engine.client->drop_namespace().ok());
  EXPECT_TRUE(wait([&] { return !engine.present(0, 1); }));
}

// covers F-126
TEST_F(ClientTest, AForkedChildIsRefused) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  EXPECT_FALSE(engine.client->in_child());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(engine.client->in_child() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(engine.store(0, 1).stored, 1U) << "the parent is not disturbed";
}

TEST_F(ClientTest, WrongUseIsRefusedByName) {
  EngineClient engine(config_.socket, kPlainLayout);
  Transfer transfer = engine.transfer(0, 1);
  transfer.pages[0] = testing_support::kPages;
  EXPECT_EQ(engine.client->load(transfer, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine.client->store_begin(transfer).code(), Code::kInvalidArgument);
  transfer = engine.transfer(0, 1);
  transfer.group = 1;
  EXPECT_EQ(engine.client->load(transfer, 0).status().code(), Code::kInvalidArgument);
  transfer.group = 0;
  transfer.pages.pop_back();
  EXPECT_EQ(engine.client->load(transfer, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine.client->register_pages(0, engine.engine.pages()).code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(engine.client->set_namespace({}).code(), Code::kOutOfRange);
}

}  // namespace
}  // namespace larder::client
