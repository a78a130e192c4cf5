// EngineParts: a RegionFile without a file system, for tests of one part of the disk engine. The
// test ends each request.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "sidecar/tiers/disk/health_probe.h"
#include "sidecar/tiers/disk/operation_table.h"
#include "sidecar/tiers/disk/region_file.h"
#include "tests/conformance/tier_chunks.h"

namespace larder::disk::testing_support {

using tiers::testing_support::key_of;

class ScriptedEnv final : public Env {
 public:
  std::vector<IoRequest> requests;  // in flight
  std::vector<IoResult> results;    // for the next turn of the device

  OpenedQueue open_queue(const IoMemory&) override { return {std::make_unique<Queue>(*this), ""}; }

 private:
  class Queue final : public IoQueue {
   public:
    explicit Queue(ScriptedEnv& env) : env_(env) {}
    void submit(const IoRequest& request) override { env_.requests.push_back(request); }
    void wait(std::uint64_t, std::vector<IoResult>& results) override {
      results = std::exchange(env_.results, {});
    }
    void wake() override {}
    const char* name() const override { return "scripted"; }

   private:
    ScriptedEnv& env_;
  };
};

class EngineParts : public testing::Test {
 protected:
  static constexpr std::uint32_t kRegions = 4, kBlocks = 64;

  EngineParts() { open(); }
  // A volume with four closed regions of the sequences 1 to 4.
  void open() {
    Volume volume;
    volume.superblock.volume = 77;
    volume.superblock.region_bytes = std::uint64_t{kBlocks} * kBlockBytes;
    volume.regions = kRegions;
    file_.volume() = std::move(volume);
    table_ = RegionTable(kRegions, kBlocks);
    catalog_.reset(kRegions);
    for (std::uint32_t i = 0; i < kRegions; ++i) {
      table_[i].state = RegionState::kClosed;
      table_[i].sequence = i + 1;
    }
    table_.saw_sequence(kRegions);
  }
  // Ends the oldest request.
  IoRequest end_one(int error = 0) {
    EXPECT_FALSE(env_.requests.empty());
    if (env_.requests.empty()) return {};
    const IoRequest request = env_.requests.front();
    env_.requests.erase(env_.requests.begin());
    env_.results.push_back({request.tag, error});
    file_.device().turn(0);
    return request;
  }
  // A record of three blocks, in the catalog.
  Record stored(std::uint64_t number, std::uint32_t region, std::uint32_t block) {
    const Record record{
        key_of(number), {1, kBlockBytes, kBlockBytes, number}, block, 1'700'000'000};
    catalog_.insert(record, region);
    table_[region].records.push_back(record);
    return record;
  }
  bool finds(const Record& record) const { return catalog_.find(record.key).has_value(); }

  ScriptedEnv env_;
  base::ManualClock clock_;
  DiskOptions options_;
  Catalog catalog_;
  RegionFile file_{env_, clock_, options_, catalog_};
  RegionTable& table_ = file_.table();
  OperationTable operations_{clock_, file_.counters()};
  HealthProbe probe_{file_, [](bool, bool) {}};
};

}  // namespace larder::disk::testing_support
