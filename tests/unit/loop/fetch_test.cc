// Promotion for an engine: a real sidecar with a real disk tier, and chunks with bytes.
#include "tests/unit/loop/disk_fixture.h"

namespace larder::loop::testing_support {
namespace {

class FetchTest : public SidecarWithDiskTest {
 protected:
  FetchTest() { config_.disk.write = config::DiskWrite::kThrough; }

  static std::vector<protocol::BlockHash> hashes(std::uint64_t from, std::uint64_t to) {
    return ChunkEngine::hashes(from, to);
  }
  void store(std::uint64_t n) { client_->store(n); }
  void store_and_write(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n <= to; ++n) store(n);
    ASSERT_TRUE(wait([&] { return stats().disk.chunks == to; })) << stats().disk.chunks;
  }
  bool find(std::uint64_t n) { return client_->find(n).has_value(); }
  bool right(std::uint64_t n) { return client_->right(n); }
  bool below(std::uint64_t n) { return client_->shown_below(n); }
  // Others take their place in memory; all are on the disk.
  void push_out(std::uint64_t from, std::uint64_t to) {
    const auto any = [&] {
      for (std::uint64_t n = from; n <= to; ++n)
        if (find(n)) return true;
      return false;
    };
    const std::uint64_t before = stats().disk.chunks;
    std::uint64_t others = 0;
    while (any()) {
      ASSERT_LT(others, 2 * config_.memory.size_bytes / 12'288);
      store(kOthers + others++);
    }
    ASSERT_TRUE(wait([&] { return stats().disk.chunks == before + others; }));
  }

  static constexpr std::uint64_t kOthers = 1'000'000;
};

TEST_F(FetchTest, EvictedChunksAreFetchedWithTheirBytes) {
  start(real_);
  attach();
  EXPECT_EQ(client_->welcome().capabilities & protocol::kCapabilityResidency,
            protocol::kCapabilityResidency);
  store_and_write(1, 5);
  for (std::uint64_t n = 1; n <= 5; ++n) EXPECT_TRUE(below(n)) << n;
  EXPECT_FALSE(below(6));
  push_out(1, 5);
  EXPECT_FALSE(find(3));
  client_->send_fetch(9, handle_, hashes(1, 6));
  const protocol::Fetched fetched = client_->receive_fetched(9);
  EXPECT_EQ(fetched.families, 5U);
  EXPECT_EQ(fetched.reason, static_cast<std::uint32_t>(protocol::FetchEnd::kAbsent));
  EXPECT_EQ(fetched.bytes, 5 * 12'288U);
  for (std::uint64_t n = 1; n <= 5; ++n) EXPECT_TRUE(right(n)) << n;
  EXPECT_TRUE(wait([&] { return stats().kept_bytes == 5 * 12'288U; }));
  client_->end_fetch(9);
  EXPECT_TRUE(wait([&] { return stats().kept_bytes == 0; }));
  EXPECT_EQ(stats().evicted_unwritten, 0U);
}

TEST_F(FetchTest, TenTimesTheMemoryIsStoredAndFetched) {
  start(real_);
  attach();
  const std::uint64_t slots = config_.memory.size_bytes / 12'288, all = 10 * slots;
  for (std::uint64_t from = 1; from <= all; from += slots / 2)
    store_and_write(from, std::min(all, from + slots / 2 - 1));
  const std::uint64_t step = slots / 8;
  std::uint32_t request = 0;
  for (std::uint64_t from = 1; from <= all; from += step) {
    client_->beat();
    const std::uint64_t to = std::min(all, from + step - 1);
    client_->send_fetch(++request, handle_, hashes(from, to));
    ASSERT_EQ(client_->receive_fetched(request).families, to - from + 1) << from;
    for (std::uint64_t n = from; n <= to; ++n) ASSERT_TRUE(right(n)) << n;
    client_->end_fetch(request);
  }
}

// Another engine stores as much as possible between the answer and the first look-up.
TEST_F(FetchTest, FetchedChunksStayUntilFetchOrSessionEnds) {
  start(real_);
  attach();
  store_and_write(1, 5);
  push_out(1, 5);
  client_->send_fetch(1, handle_, hashes(1, 5));
  ASSERT_EQ(client_->receive_fetched(1).families, 5U);
  Client other(config_.socket);
  other.attach();
  const std::uint32_t handle = other.open_namespace(fingerprint_);
  for (std::uint64_t n = 0; n < 2 * config_.memory.size_bytes / 12'288; ++n) {
    other.beat();
    client_->beat();
    const auto grants = other.reserve(handle, {{n, ~n}});
    if (grants.at(0).status == 0) other.commit(grants[0], 1);
  }
  for (std::uint64_t n = 1; n <= 5; ++n) EXPECT_TRUE(right(n)) << n;
  client_->close();
  EXPECT_TRUE(wait([&] { return stats().kept_bytes == 0; }));
}

TEST_F(FetchTest, PrefetchPromotesBeforeTheRequest) {
  start(real_);
  attach();
  store_and_write(1, 5);
  push_out(1, 5);
  const protocol::Acted acted = client_->act(handle_, protocol::Verb::kPrefetch, hashes(1, 6));
  EXPECT_EQ(acted.found, 5U);
  EXPECT_EQ(acted.absent, 1U);
  EXPECT_TRUE(wait([&] { return right(1) && right(2) && right(3) && right(4) && right(5); }));
}

// For states: a hit needs the last one, and earlier states would only take room.
TEST_F(FetchTest, PrefetchLastPromotesOnlyTheLastChunk) {
  start(real_);
  attach();
  store_and_write(1, 5);
  push_out(1, 5);
  const protocol::Acted acted = client_->act(handle_, protocol::Verb::kPrefetchLast, hashes(1, 7));
  EXPECT_EQ(acted.found, 1U);
  EXPECT_EQ(acted.absent, 6U);
  EXPECT_TRUE(wait([&] { return right(5); }));
  for (std::uint64_t n = 1; n <= 4; ++n) EXPECT_FALSE(find(n)) << n;
  const protocol::Acted again = client_->act(handle_, protocol::Verb::kPrefetchLast, hashes(1, 5));
  EXPECT_EQ(again.found, 1U) << "in memory";
  const protocol::Acted none = client_->act(handle_, protocol::Verb::kPrefetchLast, hashes(6, 9));
  EXPECT_EQ(none.found, 0U);
  EXPECT_EQ(none.absent, 4U);
}

TEST_F(FetchTest, DropRemovesChunksFromLowerTiers) {
  start(real_);
  attach();
  store_and_write(1, 3);
  protocol::Encoder drop(MessageType::kDropNamespace, 0);
  drop.append(protocol::DropNamespace{handle_, 0});
  ASSERT_TRUE(client_->send(drop).ok());
  client_->send_fetch(1, handle_, hashes(1, 3));
  EXPECT_EQ(client_->receive_fetched(1).families, 0U) << "in order";
  EXPECT_TRUE(wait([&] { return !below(1) && !below(2) && !below(3); }));
}

TEST_F(FetchTest, EngineWithoutFifthDescriptorCanFetch) {
  start(real_);
  attach(0);
  EXPECT_EQ(client_->welcome().residency_bytes, 0U);
  store_and_write(1, 2);
  push_out(1, 2);
  client_->send_fetch(1, handle_, hashes(1, 2));
  EXPECT_EQ(client_->receive_fetched(1).families, 2U);
}

TEST_F(FetchTest, FetchWithoutTierIsRefused) {
  config_.disk = {};
  start(real_);
  attach();
  EXPECT_EQ(client_->welcome().capabilities & protocol::kCapabilityResidency, 0U);
  EXPECT_EQ(client_->welcome().residency_bytes, 0U);
  store(1);
  EXPECT_EQ(client_->act(handle_, protocol::Verb::kPrefetch, hashes(1, 2)).found, 1U);
  EXPECT_EQ(client_->act(handle_, protocol::Verb::kPrefetchLast, hashes(1, 2)).found, 1U);
  client_->send_fetch(1, handle_, hashes(1, 1));
  const Status why = client_->receive_error();
  EXPECT_EQ(why.code(), Code::kUnsupported);
  EXPECT_NE(why.text().find("no tier below memory"), std::string::npos) << why.text();
}

TEST_F(FetchTest, ProbeWithoutBackendIsRefused) {
  start(real_);
  attach();
  EXPECT_EQ(client_->welcome().capabilities & protocol::kCapabilityShared, 0U);
  client_->send_probe(1, handle_, hashes(1, 1));
  const Status why = client_->receive_error();
  EXPECT_EQ(why.code(), Code::kUnsupported);
  EXPECT_NE(why.text().find("shares no backend"), std::string::npos) << why.text();
}

TEST_F(FetchTest, UnreachableBackendIsReportedInTheProbe) {
  config_.disk = {};
  config_.backend.url = "unix:///nowhere";
  config_.backend.unix_path = directory_ + "/nowhere";
  start(real_);
  attach();
  EXPECT_EQ(client_->welcome().capabilities, protocol::kCapabilityAct |
                                                 protocol::kCapabilityResidency |
                                                 protocol::kCapabilityShared);
  EXPECT_FALSE(client_->below().speed().serving);
  ASSERT_TRUE(wait([&] { return !stats().backend.takes_gets; }));
  store(1);
  ASSERT_TRUE(wait([&] { return find(1); }));
  EXPECT_EQ(client_->probe(1, 1).reason, static_cast<std::uint32_t>(protocol::ProbeEnd::kAll));
  const protocol::Probed probed = client_->probe(1, 2);
  EXPECT_EQ(probed.families, 1U);
  EXPECT_EQ(probed.reason, static_cast<std::uint32_t>(protocol::ProbeEnd::kFailed));
  EXPECT_EQ(stats().disk.place, "");
  EXPECT_EQ(stats().backend.place, "unix:///nowhere");
  client_->send_probe(1, handle_ + 1, hashes(1, 1));
  EXPECT_EQ(client_->receive_error().code(), Code::kInvalidArgument);
  attach();
  protocol::Encoder torn(MessageType::kProbe, 1);
  ASSERT_TRUE(
      client_->send(torn.append(protocol::Probe{handle_, 1, 2, 0}).append(ChunkEngine::hash(1)))
          .ok());
  EXPECT_EQ(client_->receive_error().code(), Code::kInvalidArgument);
}

TEST_F(FetchTest, AnUnknownNamespaceOrATornMessageEndsTheSession) {
  start(real_);
  attach();
  client_->send_fetch(1, handle_ + 1, hashes(1, 1));
  EXPECT_EQ(client_->receive_error().code(), Code::kInvalidArgument);
  attach();
  protocol::Encoder torn(MessageType::kFetch, 1);
  ASSERT_TRUE(
      client_->send(torn.append(protocol::Fetch{handle_, 1, 2, 0}).append(ChunkEngine::hash(1)))
          .ok());
  EXPECT_EQ(client_->receive_error().code(), Code::kInvalidArgument);
}

// After a kill of the machine the memory is gone, and the namespace is unknown until an engine
// opens it.
TEST_F(FetchTest, ChunksAreFetchedAfterRestart) {
  start(real_);
  attach();
  store_and_write(1, 4);
  client_.reset();
  stop();
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directory(directory_);
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 4; ++n) EXPECT_TRUE(below(n)) << n;
  EXPECT_TRUE(wait([&] { return client_->below().speed().serving; }));
  client_->send_fetch(1, handle_, hashes(1, 4));
  EXPECT_EQ(client_->receive_fetched(1).families, 4U);
  for (std::uint64_t n = 1; n <= 4; ++n) EXPECT_TRUE(right(n)) << n;
}

}  // namespace
}  // namespace larder::loop::testing_support
