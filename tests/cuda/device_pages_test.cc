// An engine with KV pages on a device, the whole client and a real larderd in one process: over the
// fake driver, with the kernels' own code.
#include <gtest/gtest.h>

#include <future>

#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::page_layouts;
using testing_support::PageLayout;
using testing_support::PageMemory;

constexpr PageMemory kDevice{[](std::size_t bytes) { return fake_cuda::allocate(bytes); },
                             [](std::byte* page) { return fake_cuda::view(page); }};
const PageLayout kLayout{"plain", 2, 4, 16384, 0, false, 0};

class DevicePagesTest : public loop::testing_support::SidecarTest {
 protected:
  DevicePagesTest() { config_.memory.size_bytes = 16 << 20; }
  ~DevicePagesTest() override {
    engine_.reset();
    fake_cuda::reset();
  }
  EngineClient& attach(const PageLayout& layout) {
    engine_ = std::make_unique<EngineClient>(config_.socket, layout, copy::host_copy_engine(),
                                             "engine: made-up\n", kDevice);
    EXPECT_TRUE(engine_->status.ok()) << engine_->status.to_string();
    EXPECT_TRUE(engine_->client->wait_attached(5000).ok());
    return *engine_;
  }
  // The beats of the control thread drive the registration of the arena.
  static bool await_registered(std::uint64_t bytes) {
    return wait([&] { return fake_cuda::counters().registered_bytes == bytes; }, 10);
  }
  // Whether the first `count` places of a layer hold the chunks from chunk 0 on.
  static bool layer_holds(EngineClient& engine, std::uint32_t layer, std::uint32_t count) {
    const LayerPages& pages = engine.engine.pages()[layer];
    for (std::uint32_t place = 0; place < count; ++place) {
      std::uint64_t at = layer * kLayout.blocks_per_chunk * kLayout.piece_bytes;
      for (const std::uint32_t page : engine.engine.chunk_pages(place))
        for (std::uint64_t i = 0; i < kLayout.piece_bytes; ++i, ++at)
          if (fake_cuda::view(pages.base + page * pages.stride_bytes)[i] !=
              testing_support::Engine::expected(testing_support::hash_of(place), at))
            return false;
    }
    return true;
  }
  // The number of log lines with `words`.
  int said(const std::string& words) {
    int count = 0;
    while (const std::optional<std::string> line = engine_->client->next_log())
      count += line->find(words) != std::string::npos ? 1 : 0;
    return count;
  }
  std::unique_ptr<EngineClient> engine_;
};

TEST_F(DevicePagesTest, EveryLayoutIsStoredAndLoaded) {
  start();
  for (const PageLayout& layout : page_layouts()) {
    SCOPED_TRACE(layout.name);
    EngineClient& engine = attach(layout);
    ASSERT_TRUE(await_registered(16 << 20));
    ASSERT_EQ(engine.store(0, 2).stored, 2U);
    ASSERT_TRUE(engine.await_present(0, 2));
    engine.engine.wipe();
    EXPECT_EQ(engine.load(0, 2).status, Code::kOk);
    EXPECT_TRUE(engine.holds(0, 2));
    EXPECT_TRUE(engine.engine.gaps_untouched());
    engine_.reset();
    EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U) << "taken back before it is unmapped";
    EXPECT_EQ(fake_cuda::counters().streams, 0U);
  }
}

// larderd's status tells the registered part of the arena and the engine's way of copying.
TEST_F(DevicePagesTest, StatusShowsRegisteredBytesAndCopyStrategy) {
  start();
  attach(kLayout);
  ASSERT_TRUE(await_registered(16 << 20));
  EXPECT_TRUE(wait([this] {
    return stats().sessions.size() == 1 && stats().sessions[0].registered_bytes == 16 << 20;
  }));
  EXPECT_NE(stats().sessions[0].copies_by.find("stores "), std::string::npos)
      << stats().sessions[0].copies_by;
  EngineClient host(config_.socket, kLayout);
  ASSERT_TRUE(host.client->wait_attached(5000).ok());
  EXPECT_TRUE(wait([this] { return stats().sessions.size() == 2; }));
  EXPECT_EQ(stats().sessions[1].copies_by, "") << "of an engine in host memory there is one way";
}

TEST_F(DevicePagesTest, ChunksEqualThoseOfAHostMemoryEngine) {
  start();
  EngineClient host(config_.socket, kLayout);
  ASSERT_TRUE(host.client->wait_attached(5000).ok());
  ASSERT_EQ(host.store(0, 2).stored, 2U);
  EngineClient& engine = attach(kLayout);
  ASSERT_TRUE(engine.await_present(0, 2));
  EXPECT_EQ(engine.load(0, 2).status, Code::kOk);
  EXPECT_TRUE(engine.holds(0, 2));
  ASSERT_EQ(engine.store(10, 2).stored, 2U);
  ASSERT_TRUE(host.await_present(10, 2));
  EXPECT_EQ(host.load(10, 2).status, Code::kOk);
  EXPECT_TRUE(host.holds(10, 2));
}

TEST_F(DevicePagesTest, LoadRunsBehindQueuedEngineWork) {
  start();
  EngineClient& engine = attach(kLayout);
  ASSERT_EQ(engine.store(0, 1).stored, 1U);
  ASSERT_TRUE(engine.await_present(0, 1));
  void* const stream = fake_cuda::make_stream();
  std::promise<void> go;
  fake_cuda::run(stream, [&] {
    go.get_future().wait();
    engine.engine.wipe();  // the pages' earlier owner
  });
  ASSERT_TRUE(engine.client->after_stream(stream).ok());
  const Result<std::uint64_t> ticket = engine.client->load(engine.transfer(0, 1), 5000);
  ASSERT_TRUE(ticket.ok());
  EXPECT_TRUE(engine.client->poll(1, std::chrono::milliseconds(50)).empty());
  go.set_value();
  EXPECT_EQ(engine.await(*ticket).status, Code::kOk);
  EXPECT_TRUE(engine.holds(0, 1));
}

TEST_F(DevicePagesTest, AwaitedLayerIsOnTheDevice) {
  start();
  EngineClient& engine = attach(kLayout);
  ASSERT_TRUE(await_registered(16 << 20));
  ASSERT_EQ(engine.store(0, 3).stored, 3U);
  ASSERT_TRUE(engine.await_present(0, 3));
  engine.engine.wipe();
  const Result<std::uint64_t> ticket = engine.client->load(engine.transfer(0, 3), 5000, true);
  ASSERT_TRUE(ticket.ok());
  for (const std::uint32_t layer : {0, 1}) {
    ASSERT_TRUE(engine.client->wait_layer(*ticket, layer, 10'000).ok());
    EXPECT_TRUE(layer_holds(engine, layer, 3));
  }
  EXPECT_EQ(engine.await(*ticket).status, Code::kOk);
  EXPECT_TRUE(engine.holds(0, 3));
  EXPECT_TRUE(engine.engine.gaps_untouched());
}

// During the capture the order of the pages' reads and writes is unknown. The client refuses both
// requests, and the capture stays valid.
// covers F-027
TEST_F(DevicePagesTest, RequestDuringCaptureIsRefusedAndTheNextSucceeds) {
  start();
  EngineClient& engine = attach(kLayout);
  ASSERT_EQ(engine.store(0, 2).stored, 2U);
  ASSERT_TRUE(engine.await_present(0, 2));
  void* const stream = fake_cuda::make_stream();
  fake_cuda::begin_capture(stream);
  EXPECT_EQ(engine.client->after_stream(stream).code(), Code::kFailedPrecondition);
  EXPECT_EQ(engine.client->load(engine.transfer(0, 2), 5000).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(engine.store(5, 2).refused, 2U);
  ASSERT_TRUE(engine.client->store_begin(engine.transfer(7, 1)).ok());
  EXPECT_EQ(engine.client->store_submit(1000).status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(fake_cuda::end_capture(stream));
  EXPECT_TRUE(wait([this] { return stats().grants == 0 && stats().disowned == 3; }))
      << "the begun store is given back";
  ASSERT_TRUE(engine.client->after_stream(stream).ok());
  EXPECT_EQ(engine.store(5, 2).stored, 2U);
  engine.engine.wipe();
  EXPECT_EQ(engine.load(0, 2).status, Code::kOk);
  EXPECT_TRUE(engine.holds(0, 2));
  EXPECT_EQ(said("have ended"), 0);
}

// covers F-025
TEST_F(DevicePagesTest, CudaErrorDisablesTheCacheAndIsLoggedOnce) {
  start();
  EngineClient& engine = attach(kLayout);
  ASSERT_EQ(engine.store(0, 2).stored, 2U);
  ASSERT_TRUE(engine.await_present(0, 2));
  // Covers both ways, because either may have been measured as faster.
  for (const char* work : {"kernel", "copy"}) fake_cuda::fail(work, 1, 700, true);
  EXPECT_EQ(engine.load(0, 2).status, Code::kUnavailable);
  EXPECT_EQ(engine.load(0, 2).status, Code::kUnavailable);
  EXPECT_EQ(engine.store(5, 2).refused, 2U);
  EXPECT_EQ(engine.client->after_stream(nullptr).code(), Code::kUnavailable);
  EXPECT_EQ(said("copies from and to the GPU have ended in this engine"), 1);
  EXPECT_TRUE(wait([this] { return stats().sessions.size() == 1 && stats().loads_failed == 2; }))
      << "larderd goes on with it";
  EXPECT_EQ(stats().bad_reported, 0U) << "the chunks are as good as before";
  EXPECT_TRUE(engine.present(0, 2));
}

TEST_F(DevicePagesTest, MixedHostAndDevicePagesAreRefused) {
  start();
  std::vector<std::byte> memory(1 << 20);
  Client client({config_.socket, "mixed", 1}, copy::host_copy_engine());
  NamespaceSpec spec;
  spec.fingerprint = "engine: mixed\n";
  spec.model = "made-up";
  spec.shard_count = 1;
  spec.chunk_tokens = 16;
  spec.groups = {{4096, 2, 1}};
  ASSERT_TRUE(client.set_namespace(spec).ok());
  const LayerPages on_host{memory.data(), 4096, 4096, 16},
      on_device{fake_cuda::allocate(1 << 16), 4096, 4096, 16};
  EXPECT_EQ(client.register_pages(0, {on_host, on_device}).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace larder::client
