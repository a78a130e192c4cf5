// Loads with a copy engine that copies several chunks at once: as many as are worth one wait, each
// thread its part, and the meaning of a failure of one chunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <optional>

#include "tests/unit/client/copies.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::EngineClient;
using testing_support::hash_of;
using testing_support::kPlainLayout;

constexpr std::uint64_t kChunkBytes = 2 * 4 * 16384;

class JoiningEngine final : public testing_support::HostCopies {
 public:
  std::uint64_t joined_bytes() const override { return joined; }
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    ++alone;
    return HostCopies::load(slot, root, to);
  }
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes,
                    const copy::Fence* after) const override {
    {
      const std::lock_guard lock(mutex);
      together.push_back(parts.size());
    }
    if (fails != Code::kOk) return {fails, "told to"};
    return HostCopies::load_parts(parts, piece_bytes, after);
  }
  std::uint64_t joined = 4 * kChunkBytes;
  Code fails = Code::kOk;
  mutable std::mutex mutex;
  mutable std::vector<std::size_t> together;
  mutable std::atomic<int> alone{0};
};

class JoinedLoadsTest : public loop::testing_support::SidecarTest {
 protected:
  JoinedLoadsTest() { config_.memory.size_bytes = 16 << 20; }
  void TearDown() override {  // before the objects in use go
    engine_.reset();
    stop();
  }
  void start_with_stored(std::uint32_t chunks) {
    start();
    engine_.emplace(config_.socket, kPlainLayout, copies_);
    ASSERT_TRUE(engine_->client->wait_attached(5000).ok());
    engine_->store(0, chunks);
    ASSERT_TRUE(engine_->await_present(0, chunks));
    engine_->engine.wipe();
  }
  JoiningEngine copies_;
  std::optional<EngineClient> engine_;
};

// The client has two threads.
TEST_F(JoinedLoadsTest, JoinedLoadIsSplitOverThreadsUpToTheLimit) {
  start_with_stored(16);
  EXPECT_EQ(engine_->load(0, 6).status, Code::kOk);
  EXPECT_TRUE(engine_->holds(0, 6));
  EXPECT_THAT(copies_.together, ElementsAre(3U, 3U));
  copies_.together.clear();
  EXPECT_EQ(engine_->load(0, 16).status, Code::kOk);
  EXPECT_THAT(copies_.together, ElementsAre(4U, 4U, 4U, 4U));
  EXPECT_EQ(copies_.alone, 0);
}

TEST_F(JoinedLoadsTest, SingleAndLargeChunksAreCopiedAlone) {
  start_with_stored(4);
  EXPECT_EQ(engine_->load(0, 1).status, Code::kOk);
  EXPECT_EQ(copies_.alone, 1);
  copies_.joined = kChunkBytes - 1;
  EXPECT_EQ(engine_->load(0, 4).status, Code::kOk);
  EXPECT_EQ(copies_.alone, 5);
  EXPECT_THAT(copies_.together, IsEmpty());
}

TEST_F(JoinedLoadsTest, BytesAndTouchesCountAsForSingleChunks) {
  start_with_stored(10);
  const Completion done = engine_->load(0, 5);
  EXPECT_EQ(done.status, Code::kOk);
  EXPECT_EQ(done.bytes, 5 * kChunkBytes);
  // A chunk unused since its store goes first. Events are read in their order, some time later.
  engine_->client->report(protocol::EventKind::kPrefill, 1, 1, 0);
  ASSERT_TRUE(
      wait([&] { return !stats().models.empty() && stats().models[0].prefill_tokens == 1; }));
  for (std::uint64_t next = 10; next < 300 && engine_->present(0, 10); ++next)
    engine_->store(next, 1);
  EXPECT_TRUE(engine_->present(0, 5));
  EXPECT_FALSE(engine_->present(5, 1));
}

// The bad chunk is found, only this chunk is reported, and the load fails.
TEST_F(JoinedLoadsTest, OnlyTheBadChunkIsReported) {
  start_with_stored(4);
  const std::string path = directory_ + "/" + config_.memory.shm_name + ".arena";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string start(64, '\0'), page(4096, '\0');
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = static_cast<char>(testing_support::Engine::expected(hash_of(2), i));
  bool damaged = false;
  for (std::uint64_t at = 0; at < config_.memory.size_bytes && !damaged; at += page.size()) {
    file.seekg(static_cast<std::streamoff>(at));
    file.read(page.data(), static_cast<std::streamsize>(page.size()));
    if (page.compare(0, start.size(), start) != 0) continue;
    file.seekp(static_cast<std::streamoff>(at + 20000));
    damaged = file.put('!').put('?').flush().good();
  }
  ASSERT_TRUE(damaged);
  EXPECT_EQ(engine_->load(0, 4).status, Code::kDataLoss);
  EXPECT_TRUE(wait([&] { return stats().bad_reported == 1; }));
  ASSERT_TRUE(wait([&] { return !engine_->present(2, 1); }));
  EXPECT_TRUE(engine_->present(0, 2) && engine_->present(3, 1)) << "they are as good as before";
}

// The failure says no word about the chunks.
TEST_F(JoinedLoadsTest, CopyEngineFailureReportsNoChunk) {
  start_with_stored(4);
  copies_.fails = Code::kUnavailable;
  EXPECT_EQ(engine_->load(0, 4).status, Code::kUnavailable);
  EXPECT_EQ(copies_.alone, 0) << "no load is tried again";
  EXPECT_EQ(stats().bad_reported, 0U);
}

TEST_F(JoinedLoadsTest, MissingChunkFailsTheLoad) {
  start_with_stored(3);
  EXPECT_EQ(engine_->load(0, 4).status, Code::kNotFound);
}

}  // namespace
}  // namespace larder::client
