// DiskWorld: a directory, an Env with faults, and a disk tier inside that can be opened again.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "sidecar/tiers/disk/disk_tier.h"
#include "sidecar/tiers/disk/format.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/unit/tiers/faulty_env.h"

namespace larder::disk::testing_support {

using tiers::testing_support::fill;
using tiers::testing_support::holds;
using tiers::testing_support::key_of;
using tiers::testing_support::kPayloadBytes;
using tiers::testing_support::kPieceBytes;
using tiers::testing_support::Loop;
using tiers::testing_support::Slot;

inline constexpr std::uint64_t kRegionBytes = 4 << 20;
inline constexpr std::uint64_t kChunksARegion = 3;  // of 1 MiB

class DiskWorld : public testing::Test {
 protected:
  DiskWorld() {
    char name[] = "/tmp/larder-disk-XXXXXX";
    options_.path = ::mkdtemp(name);
    options_.size_bytes = 34 << 20;  // eight regions
    options_.region_bytes = kRegionBytes;
    options_.stall_ms = 1000;  // a busy machine answers later than 200 ms
    options_.retry_ms = 10;
    options_.check_ms = 20;
  }
  ~DiskWorld() override {
    env_.faults.stalled = false;
    close();
    std::filesystem::remove_all(options_.path);
  }

  Status open() {
    close();
    Result<std::unique_ptr<tiers::Tier>> tier = open_disk_tier(env_, clock_, options_);
    if (!tier.ok()) return tier.status();
    tier_ = *std::move(tier);
    loop_.emplace(*tier_, clock_);
    return {};
  }
  void close() {
    loop_.reset();
    tier_.reset();
  }
  // The chunks that the next process would find after a kill now: in a copy of the file, in any
  // state of the device.
  Result<std::unique_ptr<tiers::Tier>> open_as_if_killed() {
    DiskOptions copied = options_;
    copied.path = options_.path + "/copy";
    std::filesystem::remove_all(copied.path);
    std::filesystem::create_directory(copied.path);
    std::filesystem::copy(options_.path + "/larder", copied.path + "/larder");
    std::filesystem::permissions(copied.path + "/larder", std::filesystem::perms::owner_all);
    return open_disk_tier(plain_env_, clock_, copied);
  }
  bool await(const std::function<bool()>& what, int ms = 10'000) const {
    for (int i = 0; i < ms / 5; ++i) {
      if (what()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return what();
  }
  // The device has no work any more.
  bool quiet() const {
    return await([this] {
      const std::int64_t before = env_.faults.calls;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      return env_.faults.calls == before;
    });
  }
  std::string file() const { return options_.path + "/larder/chunks"; }
  // The folder's use of the file system, as du counts.
  std::uint64_t disk_usage() const {
    std::uint64_t used = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.path)) {
      struct stat info {};
      if (entry.is_regular_file() && ::stat(entry.path().c_str(), &info) == 0)
        used += static_cast<std::uint64_t>(info.st_blocks) * 512;
    }
    return used;
  }
  static std::uint64_t offset_of(std::uint64_t region, std::uint64_t block) {
    return kHeadBytes + region * kRegionBytes + block * kBlockBytes;
  }
  void damage(std::uint64_t offset, std::uint64_t bytes, unsigned char flip) const {
    std::FILE* opened = std::fopen(file().c_str(), "r+b");
    ASSERT_NE(opened, nullptr);
    for (std::uint64_t at = offset; at < offset + bytes; ++at) {
      std::fseek(opened, static_cast<long>(at), SEEK_SET);
      const int old = std::fgetc(opened);
      std::fseek(opened, static_cast<long>(at), SEEK_SET);
      std::fputc(old ^ flip, opened);
    }
    std::fclose(opened);
  }

  FaultyEnv env_;
  Env plain_env_;
  base::MonotonicClock clock_;
  DiskOptions options_;
  std::unique_ptr<tiers::Tier> tier_;
  std::optional<Loop> loop_;
};

}  // namespace larder::disk::testing_support
