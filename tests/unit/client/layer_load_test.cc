// Loads with waits for single layers: order, verification, and the end of every load.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <optional>

#include "tests/unit/client/copies.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::hash_of;
using testing_support::page_layouts;
using testing_support::PageLayout;

constexpr std::uint32_t kLong = 10'000;
const PageLayout kFourLayers{"plain", 4, 4, 16384, 0, false, 0};

// Lets the test stop the copies from some layer on, or fail one.
class GatedParts final : public testing_support::HostCopies {
 public:
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes,
                    const copy::Fence* after) const override {
    gate.enter();
    const int layer = layer_of(parts.front().pieces.front());
    if (layer >= stop_layer) gate.pass();
    if (layer == fail_layer) return {Code::kResourceExhausted, "told to"};
    return HostCopies::load_parts(parts, piece_bytes, after);
  }
  // REQUIRES: each layer's pages are memory of their own.
  int layer_of(const std::byte* piece) const {
    for (std::size_t i = 0; i < pages.size(); ++i)
      if (piece >= pages[i].base &&
          piece < pages[i].base + pages[i].stride_bytes * pages[i].page_count)
        return static_cast<int>(i);
    return -1;
  }
  mutable testing_support::Gate gate;
  GroupPages pages;
  int stop_layer = 1 << 30, fail_layer = -1;
};

class LayerLoadTest : public loop::testing_support::SidecarTest {
 protected:
  LayerLoadTest() { config_.memory.size_bytes = 32 << 20; }
  void TearDown() override {  // before the objects in use go
    engine_.reset();
    stop();
  }
  void start_with_stored(std::uint32_t chunks, const PageLayout& layout = kFourLayers) {
    if (!engine_) start();
    engine_.emplace(config_.socket, layout, copies_);
    ASSERT_TRUE(engine_->client->wait_attached(5000).ok());
    engine_->store(0, chunks);
    ASSERT_TRUE(engine_->await_present(0, chunks));
    engine_->engine.wipe();
    copies_.pages = engine_->engine.pages();
  }
  std::uint64_t load(std::uint32_t chunks) {
    return engine_->client->load(engine_->transfer(0, chunks), 5000, true).value();
  }
  Code wait(std::uint64_t ticket, std::uint32_t layer, std::uint32_t ms = kLong) {
    return engine_->client->wait_layer(ticket, layer, ms).code();
  }
  // The number of bytes of that layer that equal the stored bytes.
  double share(std::uint32_t layer, std::uint32_t chunks) {
    const LayerPages& pages = engine_->engine.pages()[layer];
    std::uint64_t right = 0, all = 0;
    for (std::uint32_t place = 0; place < chunks; ++place) {
      std::uint64_t at = layer * kFourLayers.blocks_per_chunk * kFourLayers.piece_bytes;
      for (const std::uint32_t page : engine_->engine.chunk_pages(place))
        for (std::uint64_t i = 0; i < kFourLayers.piece_bytes; ++i, ++at, ++all)
          right += pages.base[page * pages.stride_bytes + i] ==
                           testing_support::Engine::expected(hash_of(place), at)
                       ? 1
                       : 0;
    }
    return static_cast<double>(right) / static_cast<double>(all);
  }
  GatedParts copies_;
  std::optional<EngineClient> engine_;
};

TEST_F(LayerLoadTest, EveryLayoutIsLoadedLayerByLayer) {
  for (const PageLayout& layout : page_layouts()) {
    SCOPED_TRACE(layout.name);
    start_with_stored(2, layout);
    const std::uint64_t ticket = load(2);
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
      EXPECT_EQ(wait(ticket, layer), Code::kOk);
    const Completion done = engine_->await(ticket);
    EXPECT_EQ(done.status, Code::kOk);
    EXPECT_EQ(done.bytes, 2 * engine_->engine.group().payload_bytes());
    EXPECT_TRUE(engine_->holds(0, 2));
    EXPECT_TRUE(engine_->engine.gaps_untouched());
  }
}

// The rest is held up by the test, so that the awaited layer cannot be there by chance.
TEST_F(LayerLoadTest, FirstLayerIsReadyBeforeTheRest) {
  start_with_stored(5);
  copies_.stop_layer = 1;
  const std::uint64_t ticket = load(5);
  EXPECT_EQ(wait(ticket, 0), Code::kOk);
  EXPECT_EQ(share(0, 5), 1.0);
  EXPECT_EQ(wait(ticket, 1, 50), Code::kDeadlineExceeded);
  EXPECT_LT(share(1, 5), 0.2);
  EXPECT_LT(share(3, 5), 0.2);
  EXPECT_TRUE(engine_->client->poll(4).empty());
  copies_.gate.open();
  EXPECT_EQ(wait(ticket, 3), Code::kOk);
  EXPECT_EQ(wait(ticket, 4), Code::kInvalidArgument);
  EXPECT_EQ(engine_->await(ticket).status, Code::kOk);
  EXPECT_TRUE(engine_->holds(0, 5));
  EXPECT_EQ(wait(ticket, 0), Code::kNotFound) << "polled";
}

// The wait for a layer that will never come ends with the load, not with the given time.
TEST_F(LayerLoadTest, FailedLoadEndsAllWaits) {
  start_with_stored(2);
  copies_.stop_layer = 1;
  copies_.fail_layer = 3;
  const std::uint64_t ticket = load(2);
  std::future<Code> waits = std::async(std::launch::async, [&] { return wait(ticket, 3, 60'000); });
  EXPECT_EQ(wait(ticket, 0), Code::kOk);
  copies_.gate.open();
  EXPECT_EQ(waits.get(), Code::kResourceExhausted);
  EXPECT_EQ(engine_->await(ticket).status, Code::kResourceExhausted);
}

TEST_F(LayerLoadTest, CorruptedByteFailsTheLoadAndIsReported) {
  start_with_stored(3);
  std::fstream file(directory_ + "/" + config_.memory.shm_name + ".arena",
                    std::ios::in | std::ios::out | std::ios::binary);
  std::string start(64, '\0'), page(4096, '\0');
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = static_cast<char>(testing_support::Engine::expected(hash_of(1), i));
  bool found = false;
  for (std::uint64_t at = 0; at < config_.memory.size_bytes && !found; at += page.size()) {
    file.seekg(static_cast<std::streamoff>(at));
    file.read(page.data(), static_cast<std::streamsize>(page.size()));
    found = page.compare(0, start.size(), start) == 0;
    if (!found) continue;
    // of the last layer
    file.seekp(static_cast<std::streamoff>(at + engine_->engine.group().payload_bytes() - 100));
    file.put('!').put('?').flush();
  }
  ASSERT_TRUE(found);
  const std::uint64_t ticket = load(3);
  EXPECT_EQ(wait(ticket, 3), Code::kDataLoss);
  EXPECT_EQ(engine_->await(ticket).status, Code::kDataLoss);
  EXPECT_TRUE(SidecarTest::wait([this] { return !engine_->present(1, 1); }))
      << "larderd looked for itself, and dropped it";
  EXPECT_TRUE(engine_->present(0, 1));
  EXPECT_TRUE(engine_->present(2, 1));
}

TEST_F(LayerLoadTest, MissingChunkFailsAtTheFirstLayerAndPlainLoadHasNoLayers) {
  start_with_stored(2);
  const std::uint64_t ticket = load(3);
  EXPECT_EQ(wait(ticket, 0), Code::kNotFound);
  EXPECT_EQ(engine_->await(ticket).status, Code::kNotFound);
  const std::uint64_t whole = engine_->client->load(engine_->transfer(0, 2), 5000).value();
  EXPECT_EQ(wait(whole, 0), Code::kNotFound);
  EXPECT_EQ(engine_->await(whole).status, Code::kOk);
  EXPECT_TRUE(SidecarTest::wait([this] { return stats().holds == 0; }));
}

TEST_F(LayerLoadTest, ClosingEndsTheWait) {
  start_with_stored(2);
  copies_.stop_layer = 0;
  load(2);
  ASSERT_TRUE(copies_.gate.await_entered(1));
  std::future<void> closed = std::async(std::launch::async, [&] { engine_->client.reset(); });
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
      << "while a thread writes pages";
  copies_.gate.open();
  closed.get();
}

}  // namespace
}  // namespace larder::client
