// Failures of CUDA, and its refusals during a capture of a graph, as CUDA's engine handles them.
#include <gmock/gmock.h>

#include <future>
#include <string>

#include "tests/cuda/cuda_engine_fixture.h"

namespace larder::copy::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Any failure at any call, sticky or not: no wrong byte, one line in the log, no thread left with
// Larder's context, and no resource left behind.
// covers F-025
TEST_F(CudaCopyEngineTest, ErrorEndsTheEngineForGoodAndIsLoggedOnce) {
  for (const char* function :
       {"cuCtxPushCurrent", "cuStreamCreateWithPriority", "cuStreamWaitEvent", "cuEventCreate",
        "cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc", "cuMemHostGetDevicePointer",
        "cuMemcpyBatchAsync", "cuLaunchKernel", "kernel", "copy"})
    for (const bool sticky : {false, true})
      for (const Way& strategy : strategies())
        for (int nth = 1; nth <= 3; ++nth) {
          // These faults are always sticky.
          if (!sticky && (function == std::string("kernel") || function == std::string("copy")))
            continue;
          SCOPED_TRACE(testing::Message()
                       << function << " " << nth << (sticky ? " sticks " : " ") << strategy.name);
          DeviceChunk chunk(5000, 3);
          CudaCopyEngine& engine = make(strategy.method, chunk.page());
          if (strategy.pinned) chunk.pin(engine);
          said_.clear();
          chunk.fill(1);
          fake_cuda::fail(function, nth, kIllegalAddress, sticky);
          const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
          chunk.fill(2);
          const Status loaded =
              root.ok() ? engine.load(chunk.slot(), *root, chunk.list()) : root.status();
          if (loaded.ok()) {
            EXPECT_TRUE(chunk.holds(1));
            EXPECT_TRUE(said_.lines().empty());
          } else {
            EXPECT_EQ(loaded.code(), Code::kUnavailable) << loaded.to_string();
            EXPECT_THAT(said_.lines(),
                        ElementsAre(HasSubstr(
                            "error copies from and to the GPU have ended in this engine")));
            EXPECT_EQ(engine.load(chunk.slot(), 0, chunk.list()).code(), Code::kUnavailable);
            EXPECT_EQ(engine.store(chunk.list(), chunk.slot()).status().code(), Code::kUnavailable);
            EXPECT_EQ(engine.fence(nullptr).status().code(), Code::kUnavailable);
            EXPECT_EQ(said_.lines().size(), 1U);
          }
          EXPECT_EQ(fake_cuda::contexts_of_thread(), 0U);
          // Clears a fault that no call met, because a release needs a context.
          if (!sticky) fake_cuda::forget_faults();
          engine_.reset();
          EXPECT_EQ(fake_cuda::counters().streams, 0U);
          fake_cuda::forget_faults();
        }
}

// An engine captures a graph of its forward pass on this thread. Copies run on this thread and on
// others.
// covers F-027
TEST_F(CudaCopyEngineTest, CaptureContinuesDuringCopies) {
  for (const Way& strategy : strategies()) {
    SCOPED_TRACE(strategy.name);
    DeviceChunk chunk(8192, 3);
    void* const stream = fake_cuda::make_stream();
    fake_cuda::begin_capture(stream);
    CudaCopyEngine& engine = make(strategy.method, chunk.page());
    if (strategy.pinned) chunk.pin(engine);
    chunk.fill(1);
    const Result<std::uint64_t> root = engine.store(chunk.list(), chunk.slot());
    ASSERT_TRUE(root.ok()) << root.status().to_string();
    chunk.fill(2);
    EXPECT_TRUE(std::async(std::launch::async,
                           [&] { return engine.load(chunk.slot(), *root, chunk.list()); })
                    .get()
                    .ok());
    EXPECT_TRUE(chunk.holds(1));
    EXPECT_TRUE(fake_cuda::end_capture(stream));
    EXPECT_TRUE(said_.lines().empty());
  }
}

// covers F-027
TEST_F(CudaCopyEngineTest, CopyBehindCapturingStreamIsRefused) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
  void* const stream = fake_cuda::make_stream();
  void* const other = fake_cuda::make_stream();
  fake_cuda::begin_capture(stream);
  const Status refused = engine.fence(stream).status();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.text(), HasSubstr("being captured"));
  EXPECT_EQ(engine.fence(nullptr).status().code(), Code::kFailedPrecondition)
      << "the legacy stream waits for all others";
  const Result<std::shared_ptr<const Fence>> beside = engine.fence(other);
  ASSERT_TRUE(beside.ok());
  EXPECT_TRUE(engine.store(chunk.list(beside->get()), chunk.slot()).ok());
  EXPECT_TRUE(fake_cuda::end_capture(stream)) << "no call has spoilt the capture";
  EXPECT_TRUE(engine.fence(stream).ok());
  EXPECT_TRUE(engine.fence(nullptr).ok());
  EXPECT_TRUE(said_.lines().empty());
}

// After an unexpected refusal because of a capture, that copy fails when all its work has ended,
// and the next copy works.
// covers F-027
TEST_F(CudaCopyEngineTest, RefusalDuringCaptureFailsOneCopyOnly) {
  for (const char* function :
       {"cuStreamCreateWithPriority", "cuStreamIsCapturing", "cuStreamWaitEvent", "cuEventCreate",
        "cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc", "cuMemcpyBatchAsync",
        "cuLaunchKernel"})
    for (const Way& strategy : strategies())
      for (const int code : {kFirstCaptureError, kCaptureImplicit, kLastCaptureError}) {
        SCOPED_TRACE(testing::Message() << function << " " << code << " " << strategy.name);
        DeviceChunk chunk(5000, 3);
        CudaCopyEngine& engine = make(strategy.method, chunk.page());
        if (strategy.pinned) chunk.pin(engine);
        chunk.fill(1);
        fake_cuda::delay_ms(1);
        fake_cuda::fail(function, 1, code);
        fake_cuda::fail("cuStreamSynchronize", 1, code, false, 3);
        const Result<std::shared_ptr<const Fence>> fence = engine.fence(nullptr);
        const Result<std::uint64_t> root =
            fence.ok() ? engine.store(chunk.list(fence->get()), chunk.slot())
                       : Result<std::uint64_t>(fence.status());
        if (!root.ok()) {
          EXPECT_EQ(root.status().code(), Code::kFailedPrecondition) << root.status().to_string();
        }
        fake_cuda::forget_faults();
        const Result<std::uint64_t> again = engine.store(chunk.list(), chunk.slot());
        ASSERT_TRUE(again.ok()) << again.status().to_string();
        chunk.fill(2);
        EXPECT_TRUE(engine.load(chunk.slot(), *again, chunk.list()).ok());
        EXPECT_TRUE(chunk.holds(1));
        EXPECT_TRUE(said_.lines().empty());
        engine_.reset();
        EXPECT_EQ(fake_cuda::counters().streams, 0U);
        fake_cuda::delay_ms(0);
      }
}

TEST_F(CudaCopyEngineTest, RefusedCopyHasEndedBeforeItsReport) {
  DeviceChunk chunk(8192, 3);
  CudaCopyEngine& engine = make(Method::kBatch, chunk.page());
  chunk.pin(engine);
  chunk.fill(1);
  const std::uint64_t root = engine.store(chunk.list(), chunk.slot()).value();
  fake_cuda::delay_ms(20);
  fake_cuda::fail("cuEventSynchronize", 1, kFirstCaptureError);
  fake_cuda::fail("cuStreamSynchronize", 1, kFirstCaptureError, false, 3);
  EXPECT_EQ(engine.load(chunk.slot(), root, chunk.list()).code(), Code::kFailedPrecondition);
  expect_nothing_late(chunk);
}

TEST_F(CudaCopyEngineTest, DestructorReleasesAllResources) {
  {
    DeviceChunk chunk(4096, 2);
    CudaCopyEngine& engine = make(Method::kKernel, chunk.page());
    chunk.pin(engine);
    EXPECT_TRUE(engine.store(chunk.list(), chunk.slot()).ok());
    EXPECT_TRUE(engine.fence(nullptr).ok());
  }
  EXPECT_EQ(fake_cuda::counters().registered_bytes, 0U) << "with the arena";
  engine_.reset();
  const fake_cuda::Counters left = fake_cuda::counters();
  EXPECT_EQ(left.streams, 0U);
  EXPECT_EQ(left.events, 0U);
  EXPECT_EQ(left.pinned_bytes, 0U);
  EXPECT_EQ(left.modules, 0U);
}

}  // namespace
}  // namespace larder::copy::cuda
