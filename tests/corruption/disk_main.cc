// corruption_disk [COUNT [SEED]]: COUNT corruptions of a disk tier's volume, each in one of the
// ways of disk_damage.h, under a running tier or before a start. Every damaged record must be a
// miss, and every damaged structure must be refused. Undamaged chunks must be there and right. Any
// other outcome fails the run.
//
// Default: 10,000 with a fixed seed; with CRASH_SUITE=whole 1,000,000 with a random seed. Prints
// the seed, the count of each kind, the rejected share, and the number of distinct damaged bytes of
// the volume.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "sidecar/base/log.h"
#include "tests/corruption/disk_damage.h"

namespace {

using namespace larder;
using namespace larder::corruption;
using Outcome = StoredRecords::Outcome;
using Stored = StoredRecords::Stored;

constexpr std::uint64_t kSmallCount = 10'000, kWholeCount = 1'000'000;
constexpr std::uint64_t kSmallSeed = 20261121;

class Run {
 public:
  explicit Run(std::uint64_t seed)
      : seed_(seed), random_(seed), records_(random_), hit_(records_.size()) {
    for (std::uint32_t region = 0; region < StoredRecords::kVolumeRegions; ++region)
      if (std::ranges::any_of(records_.chunks(),
                              [&](const Stored& chunk) { return chunk.region == region; }))
        regions_.push_back(region);
    control();
  }

  void damage(std::uint64_t count) {
    for (std::uint64_t round = 0; done_ < count && failures_ == 0; ++round) {
      if (round % 64 == 0) control();
      records_.restore();
      const std::uint64_t what = sim::below(random_, 100);
      if (what < 2) {
        whole_volume(what == 0 ? DiskKind::kBothLabels : DiskKind::kTruncated);
      } else if (what < 50) {
        under_a_running_tier();
      } else {
        before_a_start();
      }
    }
  }

  // Returns the failures.
  std::uint64_t report() const {
    std::uint64_t rejected = 0;
    for (std::size_t kind = 0; kind < kDiskKinds; ++kind) {
      const std::string_view name = name_of(static_cast<DiskKind>(kind));
      rejected += rejected_[kind];
      std::printf("%16.*s %9llu\n", static_cast<int>(name.size()), name.data(),
                  static_cast<unsigned long long>(tried_[kind]));
    }
    std::printf(
        "%llu corruptions in %llu distinct places of the disk, %.4f%% rejected; %llu undamaged "
        "loads; %llu failures\n",
        static_cast<unsigned long long>(done_),
        static_cast<unsigned long long>(std::count(hit_.begin(), hit_.end(), true)),
        done_ == 0 ? 0.0 : 100.0 * static_cast<double>(rejected) / static_cast<double>(done_),
        static_cast<unsigned long long>(right_), static_cast<unsigned long long>(failures_));
    return failures_;
  }

 private:
  // Counts one corruption and its outcome.
  void note(DiskKind kind, bool rejected, const char* what) {
    const auto number = static_cast<std::size_t>(kind);
    ++done_;
    ++tried_[number];
    rejected_[number] += rejected;
    if (!rejected) fail(kind, what);
  }
  void fail(DiskKind kind, const char* what) {
    if (++failures_ > 20) return;
    const std::string_view name = kind == DiskKind::kCount ? "undamaged" : name_of(kind);
    std::printf("FAILED: %.*s %s (seed %llu, after %llu)\n", static_cast<int>(name.size()),
                name.data(), what, static_cast<unsigned long long>(seed_),
                static_cast<unsigned long long>(done_));
  }
  DiskKind kind_from(DiskKind first, DiskKind end) {
    const auto begin = static_cast<std::uint64_t>(first);
    return static_cast<DiskKind>(begin +
                                 sim::below(random_, static_cast<std::uint64_t>(end) - begin));
  }
  void start() {
    for (const std::uint64_t place : damage_.places) hit_[place] = true;
    damage_.places.clear();
    if (!records_.start().ok()) fail(DiskKind::kCount, "the tier did not start");
    if (records_.any_dropped_known()) fail(DiskKind::kCount, "a dropped chunk is there");
  }
  void expect_right(const Stored& chunk) {
    const Outcome outcome = records_.load(chunk);
    ++right_;
    if (outcome != Outcome::kRight)
      fail(DiskKind::kCount, outcome == Outcome::kMiss ? "chunk is a miss" : "chunk is WRONG");
  }
  void control() {
    records_.restore();
    start();
    for (const Stored& chunk : records_.chunks()) expect_right(chunk);
  }

  struct Fault {
    DiskKind kind;
    const Stored* chunk;
  };
  // Damages every second record. `spared`: regions without damage.
  std::vector<Fault> damage_records(const std::vector<bool>& spared) {
    std::vector<const Stored*> order;
    for (const Stored& chunk : records_.chunks())
      if (!spared[chunk.region]) order.push_back(&chunk);
    for (std::size_t i = 0; i < order.size(); ++i)
      std::swap(order[i], order[i + sim::below(random_, order.size() - i)]);
    std::vector<Fault> faults;
    for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
      DiskKind kind = kind_from(DiskKind::kHeaderFlip, kFirstRegionKind);
      const Stored *chunk = order[i], *other = order[i + 1];
      // Without a footer a valid record of an earlier generation cannot be detected: it counts as
      // the record of its place.
      if (kind == DiskKind::kStaleGeneration && !records_.closed(chunk->region))
        kind = DiskKind::kStaleRecord;
      if (kind == DiskKind::kSwappedRecords && other->record.blocks() != chunk->record.blocks())
        kind = DiskKind::kHeaderFlip;
      damage_.of_record(kind, *chunk, other);
      if (kind == DiskKind::kSwappedRecords) swapped_.push_back(other);
      faults.push_back({kind, chunk});
    }
    return faults;
  }
  // `lost`: regions whose chunks must all be misses.
  void load_all(const std::vector<Fault>& faults, const std::vector<bool>& lost) {
    std::vector<const Stored*> damaged = std::exchange(swapped_, {});
    for (const Fault& fault : faults) {
      damaged.push_back(fault.chunk);
      const Outcome outcome = records_.load(*fault.chunk);
      note(fault.kind, outcome == Outcome::kMiss,
           outcome == Outcome::kWrong ? "gave WRONG BYTES" : "was not noticed");
    }
    for (const Stored& chunk : records_.chunks())
      if (!lost[chunk.region] && std::ranges::find(damaged, &chunk) == damaged.end())
        expect_right(chunk);
  }

  void under_a_running_tier() {
    const std::vector<bool> none(StoredRecords::kVolumeRegions);
    start();
    const std::vector<Fault> faults = damage_records(none);
    for (const std::uint64_t place : damage_.places) hit_[place] = true;
    damage_.places.clear();
    load_all(faults, none);
  }

  void before_a_start() {
    std::vector<bool> touched(StoredRecords::kVolumeRegions), lost(touched);
    std::vector<std::pair<DiskKind, std::uint32_t>> faults;
    for (const std::uint32_t region : regions_) {
      if (!sim::one_in(random_, 3)) continue;
      DiskKind kind = kind_from(kFirstRegionKind, kFirstLabelKind);
      if (!records_.closed(region) && kind < DiskKind::kTrailerFlip) kind = DiskKind::kTrailerFlip;
      const std::uint32_t other =
          regions_[(sim::below(random_, regions_.size() - 1) + 1 + index_of(region)) %
                   regions_.size()];
      damage_.of_region(kind, region, other);
      touched[region] = true;
      lost[region] = kind >= DiskKind::kTrailerFlip;
      faults.emplace_back(kind, region);
    }
    const bool with_label = sim::one_in(random_, 3);
    const DiskKind label_kind = kind_from(kFirstLabelKind, kFirstWholeKind);
    if (with_label) note(label_kind, damage_.of_label(label_kind), "was not noticed");
    const std::vector<Fault> records = damage_records(touched);
    start();
    for (const auto& [kind, region] : faults) {
      if (lost[region]) {
        const bool known =
            std::ranges::any_of(records_.chunks(), [&, at = region](const Stored& chunk) {
              return chunk.region == at && records_.known(chunk);
            });
        note(kind, !known, "was not noticed");
      } else {
        note(kind, records_.footer_rewritten(region), "was not noticed");
      }
    }
    load_all(records, lost);
  }

  void whole_volume(DiskKind kind) {
    const bool running = kind == DiskKind::kTruncated && sim::one_in(random_, 2);
    if (running) start();
    const std::uint64_t left = damage_.of_all(kind);
    if (!running) start();
    bool right = true;
    for (const Stored& chunk : records_.chunks()) {
      const Outcome outcome = records_.load(chunk);
      const bool gone = kind == DiskKind::kBothLabels ||
                        StoredRecords::slot_at(chunk) + chunk.record.facts.payload_bytes > left;
      right = right && outcome != Outcome::kWrong && (!gone || outcome == Outcome::kMiss);
    }
    for (const std::uint64_t place : damage_.places) hit_[place] = true;
    damage_.places.clear();
    note(kind, right, "was not noticed");
  }

  std::size_t index_of(std::uint32_t region) const {
    return static_cast<std::size_t>(std::ranges::find(regions_, region) - regions_.begin());
  }

  const std::uint64_t seed_;
  sim::Random random_;
  StoredRecords records_;
  DiskDamage damage_{records_, random_};
  std::vector<bool> hit_;
  std::vector<std::uint32_t> regions_;  // regions with chunks
  std::vector<const Stored*> swapped_;  // partners of swapped records
  std::uint64_t tried_[kDiskKinds] = {}, rejected_[kDiskKinds] = {};
  std::uint64_t done_ = 0, right_ = 0, failures_ = 0;
};

std::uint64_t number(const char* text) {
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  base::set_log_level(base::LogLevel::kError);
  const char* const crash = std::getenv("CRASH_SUITE");
  const bool whole = crash != nullptr && std::string_view(crash) == "whole";
  const std::uint64_t count = argc > 1 ? number(argv[1]) : whole ? kWholeCount : kSmallCount;
  const std::uint64_t seed = argc > 2            ? number(argv[2])
                             : argc > 1 || whole ? std::random_device()()
                                                 : kSmallSeed;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Run run(seed);
  run.damage(count);
  return run.report() == 0 ? 0 : 1;
}
