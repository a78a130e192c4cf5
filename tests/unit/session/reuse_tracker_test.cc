#include "sidecar/session/reuse_tracker.h"

#include <gtest/gtest.h>

#include <numeric>

namespace larder::session {
namespace {

stats::AskedRequest request_of(std::uint64_t at_ms, std::size_t chunks) {
  stats::AskedRequest request;
  request.at_ms = at_ms;
  request.chunks.resize(chunks);
  return request;
}

TEST(TraceBufferTest, RecordsOnlyWhileAReaderIsActive) {
  TraceBuffer buffer;
  EXPECT_FALSE(buffer.wanted(1000));
  EXPECT_EQ(buffer.page(std::nullopt, 1000).next, 0U);
  EXPECT_TRUE(buffer.wanted(1000 + TraceBuffer::kWantedMs - 1));
  EXPECT_FALSE(buffer.wanted(1000 + TraceBuffer::kWantedMs));
  buffer.add(request_of(1001, 1));
  const stats::TracePage later = buffer.page(std::nullopt, 1000 + 2 * TraceBuffer::kWantedMs);
  EXPECT_TRUE(later.requests.empty()) << "of an earlier recording";
  EXPECT_EQ(later.next, 1U);
}

TEST(TraceBufferTest, EachRequestIsReturnedOnceInOrder) {
  TraceBuffer buffer;
  std::uint64_t next = buffer.page(std::nullopt, 1000).next;
  for (std::uint64_t i = 0; i < 10; ++i) buffer.add(request_of(i, TraceBuffer::kMaxPageChunks / 4));
  std::uint64_t seen = 0;
  for (int pages = 0; pages < 10; ++pages) {
    const stats::TracePage page = buffer.page(next, 1000);
    for (const stats::AskedRequest& request : page.requests) EXPECT_EQ(request.at_ms, seen++);
    EXPECT_LE(page.requests.size(), 4U);
    next = page.next;
  }
  EXPECT_EQ(seen, 10U);
  EXPECT_EQ(buffer.page(9999, 1000).next, 10U) << "of another life of larderd";
}

TEST(TraceBufferTest, LostRequestsAreCountedAndMemoryIsBounded) {
  TraceBuffer buffer;
  EXPECT_EQ(buffer.page(std::nullopt, 1000).next, 0U);
  constexpr std::size_t kChunks = 1023, kFit = TraceBuffer::kMaxChunks / (kChunks + 1);
  for (std::uint64_t i = 0; i < kFit + 5; ++i) buffer.add(request_of(i, kChunks));
  const stats::TracePage page = buffer.page(0, 1000);
  EXPECT_EQ(page.lost, 5U);
  EXPECT_EQ(page.requests.front().at_ms, 5U);
}

class ReuseTrackerTest : public testing::Test {
 protected:
  ReuseTrackerTest() {
    store::NamespaceSpec spec;
    spec.fingerprint = std::make_shared<const std::string>("a: 1\n");
    spec.id = protocol::namespace_id(*spec.fingerprint);
    spec.shard_count = 2;
    spec.chunk_tokens = 256;
    spec.groups = {{4096, 1, 0}};
    std::string difference;
    const Result<std::uint32_t> opened = spaces_.open(spec, 1 << 20, &difference);
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    handle_ = *opened;
    reuse_tracker_.tick(1000);
  }
  stats::Estimate estimate() {
    stats::Estimate estimate;
    reuse_tracker_.fill(estimate);
    return estimate;
  }

  store::NamespaceTable spaces_;
  std::uint32_t handle_ = 0;
  ReuseTracker reuse_tracker_{1 << 20, spaces_};
};

TEST_F(ReuseTrackerTest, WorkPerTickIsBounded) {
  std::vector<std::uint64_t> hashes(ReuseTracker::kChunksPerTick / 2);
  std::iota(hashes.begin(), hashes.end(), 1);
  for (int i = 0; i < 5; ++i) reuse_tracker_.asked(handle_, hashes, hashes.size() * 256, 0);
  EXPECT_EQ(estimate().chunks_asked, ReuseTracker::kChunksPerTick);
  reuse_tracker_.tick(1100);
  reuse_tracker_.asked(handle_, hashes, hashes.size() * 256, 0);
  EXPECT_EQ(estimate().chunks_asked, ReuseTracker::kChunksPerTick + hashes.size());
}

TEST_F(ReuseTrackerTest, ChunksBeyondTheTokenCountAreIgnored) {
  const std::vector<std::uint64_t> hashes{1, 2, 3};
  reuse_tracker_.asked(handle_, hashes, 2 * 256 + 10, 0);
  EXPECT_EQ(estimate().chunks_asked, 3U) << "of the first one a part is the engine's own";
  reuse_tracker_.asked(handle_, hashes, 256, 0);
  EXPECT_EQ(estimate().chunks_asked, 3U);
}

// No request names states or tails: their bytes would only make the memory look larger than
// necessary.
TEST_F(ReuseTrackerTest, StoredStatesAndTailsAreIgnored) {
  const std::vector<protocol::BlockHash> hashes{{1, 1}, {2, 2}};
  for (const char* text : {"a: 1\nchunks: states\n", "a: 1\nchunks: tails\n"}) {
    store::NamespaceSpec spec = spaces_.at(handle_).spec;
    spec.fingerprint = std::make_shared<const std::string>(text);
    spec.id = protocol::namespace_id(*spec.fingerprint);
    std::string difference;
    const Result<std::uint32_t> other = spaces_.open(spec, 1 << 20, &difference);
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    reuse_tracker_.stored(*other, hashes);
    EXPECT_EQ(estimate().chunks_tracked, 0U) << text;
  }
  reuse_tracker_.stored(handle_, hashes);
  EXPECT_EQ(estimate().chunks_tracked, 2U);
}

// All shards of a chunk take room: 2 times 4096 bytes and their digests, in slots of whole pages.
TEST_F(ReuseTrackerTest, TraceNumbersAreExactInJson) {
  EXPECT_TRUE(reuse_tracker_.page(std::nullopt, 1000).requests.empty());
  const std::vector<std::uint64_t> hashes{UINT64_MAX, 1};
  reuse_tracker_.asked(handle_, hashes, 600, 256);
  const stats::TracePage page = reuse_tracker_.page(0, 1050);
  ASSERT_EQ(page.requests.size(), 1U);
  EXPECT_EQ(page.requests[0].chunk_bytes, 2U * 8192);
  for (const std::uint64_t chunk : page.requests[0].chunks) EXPECT_LT(chunk, 1ULL << 53);
}

}  // namespace
}  // namespace larder::session
