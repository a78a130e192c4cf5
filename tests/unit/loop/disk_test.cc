// The sidecar with a disk tier below its memory, for an engine and a person.
#include <algorithm>

#include "sidecar/store/store.h"
#include "tests/unit/loop/disk_fixture.h"

namespace larder::loop::testing_support {
namespace {

class DiskTest : public SidecarWithDiskTest {
 protected:
  bool store(std::uint64_t n) {
    client_->beat();
    const auto grants = client_->reserve(handle_, {{n, n}});
    if (grants.size() != 1 || grants[0].status != 0) return false;
    client_->commit(grants[0], n);
    return wait([&] { return client_->index().find({{n, n}, handle_, 0, 0}).has_value(); });
  }
  std::uint64_t slots() const { return config_.memory.size_bytes / 12288; }
  // The files after a start of the machine.
  void restart_without_memory() {
    client_.reset();
    stop();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    start(real_);
  }
  bool fallback(const std::string& kind) const {
    return std::ranges::count(stats().fallbacks, kind, &stats::Fallback::kind) > 0;
  }
  std::string id() const { return protocol::namespace_id(fingerprint_).to_hex(); }
  // The index of a larderd that was killed while its only chunk was promoted from the disk.
  void leave_a_read() const {
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      if (!file.path().filename().string().starts_with("larder.index.")) continue;
      const Fd fd(::open(file.path().c_str(), O_RDWR | O_CLOEXEC));
      Result<Mapping> mapping =
          Mapping::map_shared(fd, file.file_size(), PROT_READ | PROT_WRITE, "index");
      ASSERT_TRUE(mapping.ok());
      const auto* header = reinterpret_cast<const protocol::IndexHeader*>(mapping->data());
      auto* entries =
          reinterpret_cast<protocol::IndexEntry*>(mapping->data() + header->entries_offset);
      for (std::uint64_t i = 0; i < header->entry_count; ++i) {
        const std::uint64_t word = entries[i].word, origin = entries[i].origin;
        if (protocol::word_state(word) != protocol::SlotState::kCommitted) continue;
        entries[i].word =
            protocol::make_word(protocol::SlotState::kGranted, protocol::word_generation(word));
        entries[i].origin = protocol::pack_halves(store::kOwnSession, protocol::high_half(origin));
      }
    }
  }
};

// covers F-148
TEST_F(DiskTest, SlotsWithPendingDiskReadsAreSetAsideWithoutTheDisk) {
  const auto set_aside_by_one_with = [&](const std::string& disk) {
    config_.disk.path = disk_;
    start(real_);
    attach();
    EXPECT_TRUE(store(1));
    client_.reset();
    stop();
    leave_a_read();
    config_.disk.path = disk;
    start(real_);
    const std::uint64_t set_aside = stats().slots_quarantined;
    stop();
    EXPECT_TRUE(Sidecar::free_memory(config_).ok());
    return set_aside;
  };
  EXPECT_EQ(set_aside_by_one_with(disk_), 0U) << "it has the disk's lock: no read is left";
  EXPECT_EQ(set_aside_by_one_with(""), 1U);
}

// A member opens the text with another chunk layout, and its chunk is the first one on the disk.
// covers F-102
TEST_F(DiskTest, AChunkOfAnotherLayoutIsAMissAndIsReplaced) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  {
    Client other(config_.socket);
    other.attach();
    const std::uint32_t wrong = other.open_namespace(fingerprint_, 512);
    other.commit(other.reserve(wrong, {ChunkEngine::hash(1)}).at(0), 7);
    ASSERT_TRUE(wait([&] { return stats().disk.chunks == 1; }));
  }
  restart_without_memory();
  attach();
  EXPECT_EQ(client_->fetch(1, 1, 1).families, 0U);
  EXPECT_FALSE(client_->find(1));
  const std::uint64_t puts = stats().disk.puts;
  client_->store(1);
  ASSERT_TRUE(wait([&] { return stats().disk.puts > puts; }));
  restart_without_memory();
  attach();
  EXPECT_EQ(client_->fetch(1, 1, 1).families, 1U);
  EXPECT_TRUE(client_->right(1));
}

TEST_F(DiskTest, StatusWithoutDiskShowsNoDisk) {
  config_.disk = {};
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= slots() + 10; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(wait([&] { return stats().evicted_capacity == 10; }));
  EXPECT_EQ(stats().evicted_unwritten, 0U);
  EXPECT_TRUE(stats().disk.place.empty());
}

// covers F-141
TEST_F(DiskTest, EvictedChunksAreOnDiskAfterMemoryLoss) {
  start(real_);
  attach();
  const std::uint64_t more = 40;
  for (std::uint64_t n = 1; n <= slots() + more; ++n) {
    ASSERT_TRUE(store(n));
    // Chunks next in line are written before their eviction, unless stores are faster than the
    // disk.
    if (n < slots()) continue;
    ASSERT_TRUE(wait([&] { return stats().disk.puts > n - slots(); })) << n;
  }
  ASSERT_TRUE(wait([&] { return stats().evicted_capacity == more; }));
  EXPECT_EQ(stats().evicted_unwritten, 0U);
  EXPECT_GE(stats().disk.chunks, more);
  // The coldest half of the memory may be written ahead.
  EXPECT_LE(stats().disk.chunks, more + slots() / 2) << "warm chunks are not written";
  EXPECT_EQ(stats().disk.place, disk_);
  EXPECT_TRUE(stats().disk.mode == "io_uring" || stats().disk.mode == "threads")
      << stats().disk.mode;
  restart_without_memory();  // a stop writes the rest
  EXPECT_EQ(stats().disk.chunks, slots() + more);
}

TEST_F(DiskTest, WriteThroughChunksAreOnDiskAtOnce) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(store(n));
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 5; }));
}

// covers F-139
TEST_F(DiskTest, ADropAndAClearReachTheDisk) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == 5; }));
  const Result<std::uint64_t> dropped = sidecar_->drop_namespace(id().substr(0, 8), 5000);
  ASSERT_TRUE(dropped.ok()) << dropped.status().to_string();
  EXPECT_EQ(*dropped, 5U);
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 0; }));
  for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == 3; }));
  ASSERT_TRUE(sidecar_->clear(5000).ok());
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 0; }));
  restart_without_memory();
  EXPECT_EQ(stats().disk.chunks, 0U);
}

// covers F-139
TEST_F(DiskTest, AnEnginesDropReachesTheDisk) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == 5; }));
  protocol::Encoder drop(MessageType::kDropNamespace, 0);
  drop.append(protocol::DropNamespace{handle_, 0});
  ASSERT_TRUE(client_->send(drop).ok());
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 0 && stats().evicted_dropped == 5; }));
}

// covers F-153
TEST_F(DiskTest, AnEvictReachesTheDisk) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == 5; }));
  const Result<protocol::ActCounts> counts =
      sidecar_->act(protocol::Verb::kEvict, id(), {{1, 1}, {3, 3}, {9, 9}}, 5000);
  ASSERT_TRUE(counts.ok()) << counts.status().to_string();
  EXPECT_EQ(counts->found, 2U);
  EXPECT_EQ(counts->absent, 1U);
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 3; }));
  restart_without_memory();
  EXPECT_EQ(stats().disk.chunks, 3U);
}

// covers F-140
TEST_F(DiskTest, NamespaceOnlyOnDiskIsDroppedByItsFullId) {
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 5; ++n) ASSERT_TRUE(store(n));
  restart_without_memory();
  ASSERT_EQ(stats().disk.chunks, 5U);
  EXPECT_EQ(sidecar_->drop_namespace(id().substr(0, 8), 5000).status().code(), Code::kNotFound);
  const Result<std::uint64_t> dropped = sidecar_->drop_namespace(id(), 5000);
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(*dropped, 5U);
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 0; }));
  restart_without_memory();
  EXPECT_EQ(stats().disk.chunks, 0U);
}

// covers F-136
TEST_F(DiskTest, VanishedDirectoryCostsTheDiskOnlyAndIsUsedAgain) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  attach();
  ASSERT_TRUE(store(1));
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == 1; }));
  std::filesystem::rename(disk_, disk_ + ".away");
  ASSERT_TRUE(wait([&] { return fallback("disk"); }));
  EXPECT_FALSE(stats().disk.takes_puts);
  EXPECT_NE(stats().disk.reason.find("went away"), std::string::npos) << stats().disk.reason;
  EXPECT_TRUE(store(2)) << "memory goes on";
  std::filesystem::rename(disk_ + ".away", disk_);
  ASSERT_TRUE(wait([&] { return !fallback("disk"); }));
  EXPECT_TRUE(wait([&] { return stats().disk.chunks == 2; }))
      << "earlier chunks are found, later ones are written";
}

// covers F-145
TEST_F(DiskTest, ChunksAreRewrittenFromMemoryToAnEmptiedDisk) {
  config_.disk.write = config::DiskWrite::kThrough;
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(store(n));
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == 3; }));
  std::filesystem::rename(disk_ + "/larder", disk_ + "/away");
  ASSERT_TRUE(wait([&] { return stats().disk.times_degraded == 1; }));
  EXPECT_TRUE(wait([&] { return stats().disk.puts == 6 && stats().disk.chunks == 3; }));
}

// covers F-128
TEST_F(DiskTest, WrongDiskSettingsNameTheirField) {
  config_.disk.path = disk_ + "/nothing";
  EXPECT_NE(Sidecar::start(config_, real_).status().text().find("disk.path: " + disk_ + "/nothing"),
            std::string::npos);
  config_.disk.path = disk_;
  config_.disk.size_bytes = 1 << 20;
  EXPECT_NE(Sidecar::start(config_, real_).status().text().find("disk.size: 1 MiB is too small"),
            std::string::npos);
  config_.disk.size_bytes = 34 << 20;
  start(real_);
  config::Config other = config_;
  other.memory.shm_name = "other";
  other.socket = directory_ + "/run/other.sock";
  const Status refused = Sidecar::start(other, real_).status();
  EXPECT_NE(refused.text().find("is in use by larderd of pool larder"), std::string::npos)
      << refused.text();
}

}  // namespace
}  // namespace larder::loop::testing_support
