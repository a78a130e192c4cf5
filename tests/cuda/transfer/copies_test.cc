// larderd copies in the memory of an engine in another process: legacy handles and descriptors,
// verification, sleep.
#include <functional>
#include <future>

#include "tests/cuda/transfer/transfer_fixture.h"

namespace larder::test {
namespace {

TEST_F(TransferTest, LarderdStoresAndLoadsByLegacyHandles) {
  ASSERT_TRUE(begin()) << log_of(*engine_);
  const fake_cuda::Counters before = fake_cuda::counters();  // after the measurement of the ways
  EXPECT_TRUE(eventually([&] { return copied(*larderd_, "open") > 0; }, 10'000));
  const std::int64_t opened = copied(*larderd_, "opened");
  EXPECT_TRUE(served(*engine_, 0));
  EXPECT_TRUE(eventually(
      [&] { return copied(*larderd_, "stores") == 3 && copied(*larderd_, "loads") == 3; }, 10'000));
  EXPECT_EQ(copied(*larderd_, "failed"), 0);
  EXPECT_EQ(copied(*larderd_, "opened"), opened) << "no memory is opened for a copy";
  EXPECT_EQ(copied(*larderd_, "open"), opened);
  EXPECT_EQ(copied(*larderd_, "bytes"), 6 * 2 * 4 * 16384);
  const fake_cuda::Counters after = fake_cuda::counters();
  EXPECT_EQ(after.copies + after.batches, before.copies + before.batches)
      << "the engine's process copied no byte";
  EXPECT_EQ(after.kernels, before.kernels + 6) << "it digested its own pages";
}

TEST_F(TransferTest, LarderdStoresAndLoadsByDescriptors) {
  ASSERT_TRUE(begin(kByHand)) << log_of(*engine_);
  EXPECT_TRUE(served(*engine_, 0));
  EXPECT_TRUE(eventually(
      [&] { return copied(*larderd_, "stores") == 3 && copied(*larderd_, "loads") == 3; }, 10'000));
}

// One allocation a layer, as in sleep mode, and five descriptors a packet.
TEST_F(TransferTest, ManyAllocationsAreSentInSeveralPackets) {
  PageLayout many = kLayout;
  many.layers = 23;
  many.piece_bytes = 4096;
  larderd_ = larderd_that_copies();
  engine_ = engine_at(*larderd_, kByHand, many);
  ASSERT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_TRUE(served(*engine_, 0));
  EXPECT_EQ(log_of(*engine_).find("not_verified"), std::string::npos);
  EXPECT_TRUE(eventually(
      [&] { return copied(*larderd_, "stores") == 3 && copied(*larderd_, "loads") == 3; }, 10'000));
}

// Tensor parallel engines in one pod: CUDA registers larderd's memory once, and each GPU has its
// own addresses.
TEST_F(TransferTest, EnginesOnTwoGpusAreServedByOneLarderd) {
  // This larderd has no staging memory. It can store only to registered memory, and until then each
  // engine copies itself.
  ASSERT_TRUE(begin(kAllocated, {{"FAKE_CUDA_DEVICES", "2"}, {"FAKE_CUDA_NO_STAGING", "1"}}))
      << log_of(*engine_);
  const std::unique_ptr<EngineClient> second = engine_at(*larderd_, kOnTheSecond);
  ASSERT_TRUE(await_open(*second)) << log_of(*second);
  std::uint64_t next = 0;
  const auto stored_directly = [&](EngineClient& engine) {
    const std::int64_t stores = copied(*larderd_, "stores");
    EXPECT_TRUE(served(engine, next += 3));
    return eventually([&] { return copied(*larderd_, "stores") == stores + 3; }, 500);
  };
  EXPECT_TRUE(eventually([&] { return stored_directly(*engine_); }));
  const std::uint64_t by_the_first = next;
  EXPECT_TRUE(eventually([&] { return stored_directly(*second); }));
  second->engine.wipe();
  EXPECT_EQ(second->load(by_the_first, 3).status, Code::kOk) << "the first one's bytes";
  EXPECT_TRUE(second->holds(by_the_first, 3));
}

TEST_F(TransferTest, ChunksAreEqualForBothCopiers) {
  ASSERT_TRUE(begin());
  ASSERT_EQ(engine_->store(0, 2, 10'000).stored, 2U);
  EngineClient host(larderd_->socket(), kLayout);
  ASSERT_TRUE(host.client->wait_attached(10'000).ok());
  ASSERT_TRUE(host.await_present(0, 2));
  EXPECT_EQ(host.load(0, 2).status, Code::kOk);
  EXPECT_TRUE(host.holds(0, 2));
  ASSERT_EQ(host.store(10, 2, 10'000).stored, 2U);
  ASSERT_TRUE(engine_->await_present(10, 2));
  EXPECT_EQ(engine_->load(10, 2).status, Code::kOk);
  EXPECT_TRUE(engine_->holds(10, 2));
}

// A load that waits for the engine's queued work on a stream, until go().
class WaitingLoad {
 public:
  // `behind` runs on the stream once the stream may go on.
  explicit WaitingLoad(
      EngineClient& engine, std::function<void()> behind = [] {})
      : engine_(engine) {
    void* const stream = fake_cuda::make_stream();
    fake_cuda::run(stream, [go = go_.get_future().share(), behind = std::move(behind)] {
      go.wait();
      behind();
    });
    EXPECT_TRUE(engine_.client->after_stream(stream).ok());
    const Result<std::uint64_t> ticket = engine_.client->load(engine_.transfer(0, 1), 5000);
    EXPECT_TRUE(ticket.ok());
    if (ticket.ok()) ticket_ = *ticket;
    EXPECT_TRUE(engine_.client->poll(1, std::chrono::milliseconds(200)).empty());
  }
  bool go() {
    go_.set_value();
    return engine_.await(ticket_).status == Code::kOk && engine_.holds(0, 1);
  }

 private:
  EngineClient& engine_;
  std::promise<void> go_;
  std::uint64_t ticket_ = 0;
};

TEST_F(TransferTest, LarderdCopiesBehindQueuedEngineWork) {
  ASSERT_TRUE(begin());
  ASSERT_TRUE(served(*engine_, 0, 1));
  WaitingLoad load(*engine_, [&] { engine_->engine.wipe(); });  // the pages' earlier owner
  EXPECT_EQ(copied(*larderd_, "loads"), 1) << "not asked yet";
  EXPECT_TRUE(load.go());
  EXPECT_TRUE(eventually([&] { return copied(*larderd_, "loads") == 2; }, 10'000));
}

// Engines must not free memory like this. Larderd would write to the former place of the memory,
// and the difference would end larderd's copies for good.
// covers F-029
TEST_F(TransferTest, MemoryFreedWhileACopyWaitedIsExportedAgain) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0, 1));
  WaitingLoad load(*engine_);
  swap_memory(false);
  EXPECT_TRUE(load.go()) << "by the engine itself";
  EXPECT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_EQ(copied(*larderd_, "loads"), 1);
}

// The engine must not request this copy: its range numbers belong to the earlier export.
TEST_F(TransferTest, CopyPendingDuringReexportIsNotRequested) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0, 1));
  WaitingLoad load(*engine_);
  ASSERT_TRUE(engine_->client->pages_leave(10'000).ok());
  engine_->client->pages_are_back();
  ASSERT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_TRUE(load.go()) << "by the engine itself";
  EXPECT_EQ(copied(*larderd_, "loads"), 1);
  ASSERT_TRUE(engine_->client->after_stream(nullptr).ok());
  EXPECT_EQ(engine_->load(0, 1).status, Code::kOk);
  EXPECT_TRUE(eventually([&] { return copied(*larderd_, "loads") == 2; }, 10'000));
}

// Sleep: the memory goes, and other memory comes to its place.
TEST_F(TransferTest, EngineIsServedAgainAfterSleep) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0));
  ASSERT_TRUE(engine_->client->pages_leave(10'000).ok());
  EXPECT_FALSE(engine_->client->sidecar_copies());
  for (const client::LayerPages& layer : engine_->engine.pages())
    fake_cuda::unmap_by_hand(layer.base);
  for (const client::LayerPages& layer : engine_->engine.pages()) fake_cuda::map_again(layer.base);
  engine_->client->pages_are_back();
  ASSERT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_EQ(engine_->load(0, 3).status, Code::kOk);
  EXPECT_TRUE(engine_->holds(0, 3));
  EXPECT_TRUE(eventually([&] { return copied(*larderd_, "loads") == 6; }, 10'000));
}

// covers F-029
TEST_F(TransferTest, MemoryFreedWithoutNoticeIsExportedAgain) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0));
  swap_memory(false);
  EXPECT_EQ(engine_->load(0, 3).status, Code::kOk) << "by the engine itself";
  EXPECT_TRUE(engine_->holds(0, 3));
  EXPECT_TRUE(await_open(*engine_)) << log_of(*engine_);
  EXPECT_TRUE(served(*engine_, 10));
  EXPECT_TRUE(eventually([&] { return copied(*larderd_, "stores") == 6; }, 10'000));
}

// The worst case: the new memory is indistinguishable, and larderd's copies go on in the old
// memory.
// covers F-029
TEST_F(TransferTest, StaleMappingIsDetectedByEngineDigests) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0));
  swap_memory(true);
  EXPECT_EQ(engine_->load(0, 3).status, Code::kOk);
  EXPECT_TRUE(engine_->holds(0, 3)) << "not the bytes that larderd wrote into freed memory";
  EXPECT_FALSE(engine_->client->sidecar_copies());
  EXPECT_NE(log_of(*engine_).find("not_verified"), std::string::npos);
  EXPECT_TRUE(served(*engine_, 10)) << "by itself";
  EXPECT_TRUE(eventually(
      [&] {
        return larderd_->status_text({"sessions", "attached", "0", "transfer", "reason"}) ==
               "not_verified";
      },
      10'000));
}

// covers F-029
TEST_F(TransferTest, StoreFromStaleMappingIsNotCommitted) {
  ASSERT_TRUE(begin(kByHand));
  ASSERT_TRUE(served(*engine_, 0));
  swap_memory(true);
  EXPECT_TRUE(served(*engine_, 10));
  EngineClient host(larderd_->socket(), kLayout);
  ASSERT_TRUE(host.client->wait_attached(10'000).ok());
  ASSERT_EQ(host.load(10, 3).status, Code::kOk);
  EXPECT_TRUE(host.holds(10, 3));
}

// covers F-030
TEST_F(TransferTest, CudaErrorReachesEveryEngineWithItsFirstCopy) {
  ASSERT_TRUE(begin(kAllocated, {{"FAKE_CUDA_FAIL_COPY", "1"}}));
  const std::unique_ptr<EngineClient> second = engine_at(*larderd_);
  ASSERT_TRUE(await_open(*second)) << log_of(*second);
  std::int64_t failed = 0;
  for (EngineClient* const engine : {engine_.get(), second.get()}) {
    EXPECT_TRUE(engine->client->sidecar_copies()) << "no message has told larderd";
    EXPECT_TRUE(served(*engine, 10 * failed, 1)) << "by itself";
    EXPECT_FALSE(engine->client->sidecar_copies());
    EXPECT_NE(log_of(*engine).find("failed"), std::string::npos);
    EXPECT_TRUE(eventually([&] { return copied(*larderd_, "failed") == failed + 1; }, 10'000))
        << copied(*larderd_, "failed");
    ++failed;
  }
  const auto told = [&](const std::string& session, const std::string& what) {
    return larderd_->status_text({"sessions", "attached", session, "transfer", what});
  };
  for (const char* const session : {"0", "1"}) {
    EXPECT_TRUE(eventually([&] { return told(session, "reason") == "failed"; }, 10'000));
    EXPECT_NE(told(session, "why").find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos)
        << told(session, "why");
  }
  EXPECT_TRUE(served(*engine_, 30));
  EXPECT_TRUE(served(*second, 40));
  EXPECT_EQ(copied(*larderd_, "failed"), failed) << "no engine asks any more";
}

// covers F-029
TEST_F(TransferTest, FreedMemoryEndsOnlyLarderdCopies) {
  ASSERT_TRUE(begin());
  ASSERT_EQ(engine_->store(0, 3, 10'000).stored, 3U);
  ASSERT_TRUE(engine_->await_present(0, 3));
  fake_cuda::free_unasked(engine_->engine.pages()[0].base);
  EXPECT_NE(engine_->load(0, 1).status, Code::kOk)
      << "the engine's own fault, told as a failed load";
  EXPECT_TRUE(await_open(*engine_, false));
  fake_cuda::forget_faults();  // both engines are in this process
  EngineClient host(larderd_->socket(), kLayout);
  ASSERT_TRUE(host.client->wait_attached(10'000).ok());
  EXPECT_EQ(host.load(0, 3).status, Code::kOk);
  EXPECT_TRUE(host.holds(0, 3));
}

}  // namespace
}  // namespace larder::test
