#include "sidecar/tiering/residency_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <set>
#include <vector>

namespace larder::tiering {
namespace {

tiers::ChunkKey key_of(std::uint64_t n) {
  return {{n, 7}, {n * 0x9e3779b97f4a7c15ULL, n}, static_cast<std::uint16_t>(n % 3), 1};
}

class ResidencyFilterTest : public testing::Test {
 protected:
  ResidencyFilterTest()
      : region_(*ResidencyFilter::create(64 << 20)),
        reader_(*protocol::ResidencyReader::open(region_->data(), region_->bytes())) {}

  bool has(std::uint64_t n) const {
    const tiers::ChunkKey key = key_of(n);
    return reader_.has(reader_.place(key.namespace_id, key.hash, key.shard, key.group));
  }

  std::shared_ptr<ResidencyFilter> region_;
  protocol::ResidencyReader reader_;
};

TEST_F(ResidencyFilterTest, ShowsPresentChunks) {
  for (std::uint64_t n = 1; n <= 1000; ++n) region_->added(key_of(n));
  region_->added(key_of(5));
  for (std::uint64_t n = 1; n <= 1000; ++n) EXPECT_TRUE(has(n)) << n;
  for (std::uint64_t n = 1001; n <= 2000; ++n) EXPECT_FALSE(has(n)) << n;
  region_->removed(key_of(5));
  region_->removed(key_of(5));
  region_->removed(key_of(1500));
  EXPECT_FALSE(has(5)) << "added twice, there once";
  region_->removed_all();
  for (std::uint64_t n = 1; n <= 1000; ++n) EXPECT_FALSE(has(n)) << n;
}

// Some chunks have no place then. A removal leaves other chunks alone.
TEST_F(ResidencyFilterTest, OverfullRegionShowsFewerChunksAndNoForeignOnes) {
  const std::uint64_t many = protocol::kLeastResidencyBuckets * protocol::kBucketCells * 2;
  for (std::uint64_t n = 1; n <= many; ++n) region_->added(key_of(n));
  std::set<std::uint64_t> shown;
  for (std::uint64_t n = 1; n <= many; ++n)
    if (has(n)) shown.insert(n);
  EXPECT_GT(shown.size(), many * 2 / 5);
  EXPECT_LE(shown.size(), many / 2);
  for (std::uint64_t n = 1; n <= many; n += 2) region_->removed(key_of(n));
  for (std::uint64_t n = 2; n <= many; n += 2) EXPECT_EQ(has(n), shown.contains(n)) << n;
}

TEST_F(ResidencyFilterTest, HalfFullRegionShowsAllChunks) {
  const std::uint64_t many = protocol::kLeastResidencyBuckets * protocol::kBucketCells / 2;
  std::uint64_t shown = 0;
  for (std::uint64_t n = 1; n <= many; ++n) region_->added(key_of(n));
  for (std::uint64_t n = 1; n <= many; ++n) shown += has(n);
  EXPECT_GE(shown, many - 1);
}

TEST_F(ResidencyFilterTest, EnginesHaveReadOnlyAccess) {
  const Fd theirs(::fcntl(region_->fd(), F_DUPFD_CLOEXEC, 0));
  EXPECT_EQ(::mmap(nullptr, region_->bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, theirs.get(), 0),
            MAP_FAILED);
  const Result<Mapping> mapping = Mapping::map_shared(theirs, region_->bytes(), PROT_READ, "test");
  ASSERT_TRUE(mapping.ok());
  EXPECT_NE(::mprotect(mapping->data(), region_->bytes(), PROT_READ | PROT_WRITE), 0);
  const Fd again(
      ::open(("/proc/self/fd/" + std::to_string(region_->fd())).c_str(), O_RDWR | O_CLOEXEC));
  if (again.valid()) {  // as root
    EXPECT_EQ(::mmap(nullptr, region_->bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0),
              MAP_FAILED);
    EXPECT_NE(::ftruncate(again.get(), 0), 0);
  }
}

TEST_F(ResidencyFilterTest, HeaderIsChecked) {
  region_->publish({true, 123, 456});
  EXPECT_TRUE(reader_.speed().serving);
  EXPECT_EQ(reader_.speed().read_latency_ns, 123U);
  EXPECT_EQ(reader_.speed().read_bytes_per_s, 456U);
  std::vector<std::uint64_t> copy(region_->bytes() / 8);
  std::memcpy(copy.data(), region_->data(), region_->bytes());
  const auto open = [&](std::size_t bytes) {
    return protocol::ResidencyReader::open(reinterpret_cast<const std::byte*>(copy.data()), bytes)
        .status()
        .code();
  };
  EXPECT_EQ(open(region_->bytes()), Code::kOk);
  EXPECT_EQ(open(region_->bytes() - 8), Code::kDataLoss);
  EXPECT_EQ(open(100), Code::kDataLoss);
  copy[2] = 1000;
  EXPECT_EQ(open(region_->bytes()), Code::kDataLoss);
  copy[0] ^= 1;
  EXPECT_EQ(open(region_->bytes()), Code::kDataLoss);
}

TEST_F(ResidencyFilterTest, RemembersTheLatestChunks) {
  EXPECT_FALSE(region_->recent());
  for (std::uint64_t n = 1; n <= 100; ++n) region_->added(key_of(n));
  std::set<std::uint64_t> given;
  for (int i = 0; i < 16; ++i) given.insert(region_->recent()->hash.hi);
  EXPECT_EQ(given.size(), 16U);
  EXPECT_EQ(*given.begin(), 85U);
}

}  // namespace
}  // namespace larder::tiering
