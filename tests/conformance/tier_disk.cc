// The disk tier for the conformance suite: a directory of its own, small, in regions of 4 MiB.
#include <filesystem>

#include "sidecar/tiers/disk/disk_tier.h"
#include "tests/conformance/tier_under_test.h"

namespace larder::tiers::testing_support {
namespace {

constexpr std::uint64_t kRegionBytes = 4 << 20;

class DiskBox final : public TierBox {
 public:
  DiskBox(bool allow_uring, bool allow_direct) {
    char name[] = "/tmp/larder-tier-XXXXXX";
    options_.path = ::mkdtemp(name);
    options_.size_bytes = 34 << 20;
    options_.region_bytes = kRegionBytes;
    options_.accepted_bytes = 16 << 20;
    options_.allow_uring = allow_uring;
    options_.allow_direct = allow_direct;
  }
  ~DiskBox() override { std::filesystem::remove_all(options_.path); }
  std::unique_ptr<Tier> open() override {
    Result<std::unique_ptr<Tier>> tier = disk::open_disk_tier(env_, clock, options_);
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  bool survives_restart() const override { return true; }
  std::uint64_t most_slot_bytes() const override { return kRegionBytes - 3 * 4096; }
  std::uint64_t accepted_bytes() const override { return options_.accepted_bytes; }
  std::uint64_t capacity_chunks_of_1_mib() const override { return 8 * 3; }

 private:
  disk::Env env_;
  disk::DiskOptions options_;
};

}  // namespace

std::unique_ptr<TierBox> make_disk_box(bool allow_uring, bool allow_direct) {
  return std::make_unique<DiskBox>(allow_uring, allow_direct);
}

}  // namespace larder::tiers::testing_support
