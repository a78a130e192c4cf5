// A real larderd with a disk tier, killed, stopped, and restarted without its memory, like a
// machine.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <filesystem>

#include "shim/protocol/checksum.h"
#include "tests/component/larderd_process.h"
#include "tests/unit/loop/client.h"

namespace larder::test {
namespace {

using loop::testing_support::Client;

constexpr std::uint64_t kChunks = 40;

class DiskTierTest : public testing::Test {
 protected:
  DiskTierTest() {
    char name[] = "/tmp/larder-disk-XXXXXX";
    disk_ = ::mkdtemp(name);
  }
  ~DiskTierTest() override {
    larderd_.reset();
    std::filesystem::remove_all(disk_);
  }
  void start(const std::string& write) {
    larderd_ = std::make_unique<LarderdProcess>(
        "1MiB", "warning", LARDERD_PATH,
        "disk:\n  path: " + disk_ + "\n  size: 34MiB\n  write: " + write + "\n");
  }
  void store_all() {
    Client client(larderd_->socket());
    client.attach();
    const std::uint32_t handle = client.open_namespace("engine: test\n");
    for (std::uint64_t n = 1; n <= kChunks; ++n) {
      const auto grants = client.reserve(handle, {{n, n}});
      ASSERT_TRUE(grants.size() == 1 && grants[0].status == 0) << n;
      client.commit(grants[0], write(client.arena() + grants[0].offset_bytes, n));
    }
    ASSERT_TRUE(eventually([&] {
      return larderd_->status_number({"memory", "slots", "committed"}) == kChunks;
    }));
  }
  // Two pieces of 4 KiB and their digests, as an engine writes them. Returns the root: chunks open
  // at a kill are verified.
  static std::uint64_t write(std::byte* slot, std::uint64_t n) {
    constexpr std::uint64_t kPieceBytes = 4096;
    std::uint64_t digests[2];
    std::memset(slot, static_cast<int>(n), 2 * kPieceBytes);
    for (std::uint64_t piece = 0; piece < 2; ++piece)
      protocol::piece_digests(slot + piece * kPieceBytes, kPieceBytes, &digests[piece]);
    std::memcpy(slot + protocol::digest_table_offset(2 * kPieceBytes), digests, sizeof(digests));
    return protocol::root_digest(digests, 2);
  }
  bool on_disk(std::int64_t chunks) {
    return eventually([&] { return larderd_->status_number({"disk", "chunks"}) == chunks; });
  }
  void start_the_machine_anew(int signal) {
    larderd_->kill_and_restart(signal, [this] { larderd_->lose_memory(); });
    EXPECT_EQ(larderd_->status_number({"memory", "slots", "committed"}), 0);
  }

  std::string disk_;
  std::unique_ptr<LarderdProcess> larderd_;
};

// covers F-141
TEST_F(DiskTierTest, StopWritesMemoryToDisk) {
  start("back");
  store_all();
  EXPECT_TRUE(on_disk(0)) << "there is room in memory";
  start_the_machine_anew(SIGTERM);
  EXPECT_TRUE(on_disk(kChunks));
}

// covers F-141
TEST_F(DiskTierTest, WriteThroughChunksSurviveSigkill) {
  start("through");
  store_all();
  EXPECT_TRUE(on_disk(kChunks));
  start_the_machine_anew(SIGKILL);
  EXPECT_TRUE(on_disk(kChunks));
}

}  // namespace
}  // namespace larder::test
