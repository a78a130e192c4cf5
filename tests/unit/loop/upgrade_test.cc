// The files of every earlier larderd, in memory and on disk, opened by this one: chunk by chunk
// with the bytes. And files of another version, which are reported as such. tests/golden/README.md
// tells how the fixtures are made.
#include <cstdlib>
#include <functional>

#include "shim/protocol/checksum.h"
#include "sidecar/base/log.h"
#include "sidecar/base/log_throttle.h"
#include "tests/unit/loop/sidecar_fixture.h"
#include "tests/unit/loop/sparse_file.h"

namespace larder::loop::testing_support {
namespace {

namespace fs = std::filesystem;

const std::string kUpgraded = "engine: one that upgrades\n";
constexpr std::uint64_t kChunks = 3, kPayloadBytes = 8192, kPieceBytes = 4096;
// A change of the restart format, of the disk's format or of a journal adds a fixture: the change
// raises this number, and never edits a fixture.
constexpr int kFixtures = 2;

fs::path fixture(int number) {
  return fs::path(GOLDEN_FOLDER) / ("left_by_larderd_" + std::to_string(number));
}

class UpgradeTest : public SidecarTest {
 protected:
  UpgradeTest() {
    char name[] = "/tmp/larder-ipc-upgrade-XXXXXX";
    disk_ = ::mkdtemp(name);
    config_.disk.size_bytes = 34 << 20;
    config_.disk.write = config::DiskWrite::kThrough;
  }
  ~UpgradeTest() override {
    stop();
    fs::remove_all(disk_);
  }

  static protocol::BlockHash hash(std::uint64_t n) { return {n * 0x9e3779b97f4a7c15ULL, n}; }
  // A few words in each unit; all else is zero.
  static std::vector<std::byte> payload(std::uint64_t n) {
    std::vector<std::byte> bytes(kPayloadBytes);
    for (std::uint64_t at = 0; at < kPayloadBytes; at += 1024) {
      const std::uint64_t word = (n + 1) * 0x9e3779b97f4a7c15ULL ^ (at + 1) * 0xc2b2ae3d27d4eb4fULL;
      std::memcpy(bytes.data() + at, &word, sizeof(word));
    }
    return bytes;
  }
  static std::uint64_t digests(const std::vector<std::byte>& bytes, std::uint64_t (&table)[2]) {
    for (std::uint64_t piece = 0; piece < 2; ++piece)
      protocol::piece_digests(bytes.data() + piece * kPieceBytes, kPieceBytes, &table[piece]);
    return protocol::root_digest(table, 2);
  }
  void attach() {
    client_ = std::make_unique<Client>(config_.socket);
    client_->capabilities = protocol::kCapabilityResidency;
    client_->attach();
    handle_ = client_->open_namespace(kUpgraded);
  }
  void store(std::uint64_t n) {
    const std::vector<protocol::Grant> grants =
        client_->reserve(handle_, {hash(n)}, {n == 1 ? protocol::BlockHash{} : hash(n - 1)});
    ASSERT_TRUE(grants.size() == 1 && grants[0].status == 0);
    std::byte* slot = client_->arena() + grants[0].offset_bytes;
    std::uint64_t table[2];
    const std::vector<std::byte> bytes = payload(n);
    const std::uint64_t root = digests(bytes, table);
    std::memcpy(slot, bytes.data(), bytes.size());
    std::memcpy(slot + protocol::digest_table_offset(kPayloadBytes), table, sizeof(table));
    client_->commit(grants[0], root);
  }
  // In memory, with bytes, digests and root.
  bool right(std::uint64_t n) {
    const auto view = client_->index().find({hash(n), handle_, 0, 0});
    if (!view || view->payload_bytes != kPayloadBytes || view->piece_bytes != kPieceBytes)
      return false;
    const std::byte* slot = client_->arena() + view->offset_bytes;
    std::uint64_t table[2];
    const std::vector<std::byte> bytes = payload(n);
    return view->root == digests(bytes, table) &&
           view->record == protocol::record_checksum(*view) &&
           std::memcmp(slot, bytes.data(), bytes.size()) == 0 &&
           std::memcmp(slot + protocol::digest_table_offset(kPayloadBytes), table, sizeof(table)) ==
               0;
  }
  std::uint64_t all_right() {
    std::uint64_t count = 0;
    for (std::uint64_t n = 1; n <= kChunks; ++n) count += right(n);
    return count;
  }
  // Under larderd's names for the files: those of memory, or a disk's.
  void put_memory(int number) {
    for (const auto& file : fs::directory_iterator(fixture(number))) {
      const std::string name = file.path().filename();
      if (!name.starts_with("larder.")) continue;
      EXPECT_TRUE(unpack_file(file.path(), directory_ + "/" + name)) << name;
    }
  }
  fs::path chunks() const { return fs::path(disk_) / "larder" / "chunks"; }
  void put_disk(int number, const std::string& kind) {
    config_.disk.path = disk_;
    fs::remove_all(disk_ + "/larder");
    fs::create_directory(disk_ + "/larder");
    fs::permissions(disk_ + "/larder", fs::perms::owner_all);
    EXPECT_TRUE(unpack_file(fixture(number) / ("disk." + kind), chunks()));
  }
  void forget_memory() {
    client_.reset();
    stop();
    EXPECT_TRUE(Sidecar::free_memory(config_).ok());
  }
  fs::path index() const {
    for (const auto& file : fs::directory_iterator(directory_))
      if (file.path().filename().string().starts_with("larder.index.")) return file.path();
    return {};
  }
  // The 16-bit words at these places are this version.
  static void set_version(const fs::path& path, std::initializer_list<std::uint64_t> places,
                          std::uint16_t version) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    for (const std::uint64_t place : places) {
      file.seekp(static_cast<std::streamoff>(place));
      file.write(reinterpret_cast<const char*>(&version), sizeof(version));
    }
    ASSERT_TRUE(file.good());
  }
  void write_fixture(const fs::path& folder);

  std::string disk_;
  base::MonotonicClock real_;
  std::unique_ptr<Client> client_;
  std::uint32_t handle_ = 0;
};

// A disk is copied twice: as after a kill, with an open region, and as after a stop.
void UpgradeTest::write_fixture(const fs::path& folder) {
  fs::create_directories(folder);
  config_.disk.path = disk_;
  start(real_);
  attach();
  for (std::uint64_t n = 1; n <= kChunks; ++n) store(n);
  ASSERT_TRUE(wait([&] { return stats().disk.chunks == kChunks; }));
  pack_file(chunks(), folder / "disk.killed");
  client_.reset();
  stop();
  pack_file(chunks(), folder / "disk.stopped");
  for (const auto& file : fs::directory_iterator(directory_)) {
    const std::string name = file.path().filename();
    if (name.starts_with("larder.")) pack_file(file.path(), folder / name);
  }
  EXPECT_TRUE(Sidecar::free_memory(config_).ok());
  config_.disk.path.clear();
}

// covers F-009
TEST_F(UpgradeTest, MemoryOfEveryReleaseIsRestoredWithItsBytes) {
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr && !fs::exists(fixture(kFixtures)))
    write_fixture(fixture(kFixtures));
  for (int number = 1; number <= kFixtures; ++number) {
    SCOPED_TRACE(number);
    put_memory(number);
    start(real_);
    EXPECT_EQ(stats().restored_chunks, kChunks);
    attach();
    EXPECT_EQ(all_right(), kChunks);
    forget_memory();
  }
}

// covers F-009
TEST_F(UpgradeTest, DiskOfEveryReleaseIsReadWithItsBytes) {
  for (int number = 1; number <= kFixtures; ++number) {
    for (const char* kind : {"killed", "stopped"}) {
      SCOPED_TRACE(fixture(number) / kind);
      put_disk(number, kind);
      start(real_);
      EXPECT_EQ(stats().disk.chunks, kChunks);
      attach();
      EXPECT_EQ(all_right(), 0U);
      client_->send_fetch(1, handle_, {hash(1), hash(2), hash(3)});
      EXPECT_EQ(client_->receive_fetched(1).families, kChunks);
      EXPECT_EQ(all_right(), kChunks);
      forget_memory();
    }
  }
}

// Of tomorrow: refused by name. Of before all restarts: a cold start.
// covers F-009
TEST_F(UpgradeTest, MemoryOfOtherVersionIsRefusedOrAColdStart) {
  struct Other {
    std::uint64_t place;
    std::uint16_t version;
    std::string refusal;
  };
  for (const Other& other :
       {Other{offsetof(protocol::IndexHeader, restart_format), protocol::kRestartFormat + 1,
              "restart format " + std::to_string(protocol::kRestartFormat + 1)},
        Other{offsetof(protocol::IndexHeader, version_major), protocol::kVersionMajor + 1,
              "version " + std::to_string(protocol::kVersionMajor + 1) + "."},
        Other{offsetof(protocol::IndexHeader, restart_format), 0, ""},
        Other{offsetof(protocol::IndexHeader, version_major), 0, ""}}) {
    SCOPED_TRACE(other.refusal);
    put_memory(kFixtures);
    set_version(index(), {other.place}, other.version);
    if (!other.refusal.empty()) {
      const Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, real_);
      EXPECT_EQ(sidecar.status().code(), Code::kFailedPrecondition);
      EXPECT_NE(sidecar.status().text().find(other.refusal), std::string::npos)
          << sidecar.status().text();
      EXPECT_TRUE(Sidecar::free_memory(config_).ok());
      continue;
    }
    testing::internal::CaptureStderr();
    start(real_);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("cold start: " + directory_ + "/larder.index."), std::string::npos) << log;
    attach();
    EXPECT_EQ(all_right(), 0U);
    forget_memory();
  }
}

// covers F-009
TEST_F(UpgradeTest, DiskOfOtherVersionStartsEmptyAndIsReported) {
  constexpr std::uint64_t kVersionAt = 4, kSecondLabel = 64 << 10;  // tiers/disk/FORMAT.md
  for (const std::uint16_t version : {std::uint16_t{0}, std::uint16_t{99}}) {
    put_disk(kFixtures, "stopped");
    set_version(chunks(), {kVersionAt, kSecondLabel + kVersionAt}, version);
    base::tell_all_left_out();  // a start of larderd has no earlier lines
    testing::internal::CaptureStderr();
    start(real_);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("starts empty: its file is of another format version"), std::string::npos)
        << log;
    EXPECT_EQ(stats().disk.chunks, 0U);
    attach();
    store(1);
    EXPECT_TRUE(wait([&] { return stats().disk.chunks == 1; })) << "it is used from now on";
    forget_memory();
  }
}

}  // namespace
}  // namespace larder::loop::testing_support
