// bench disk: 2 MiB random reads and appends through the disk tier, against the best of the
// hand-made O_DIRECT loops and fio, taking turns. The loops are 1, 2 or 4 threads of pread or
// pwrite over a file of the same size on the same file system; fio uses the same file.
//
// The tier writes headers, footers and syncs; the loops write slots alone. Payload checksums are
// the engine's work and part of neither. A row is a round. Goals are medians of the rounds' own
// ratios, because a virtual disk drifts. The best arm is the one with the best median; the best arm
// of each round would be the luckiest one. Before a figure is printed, every slot that a round read
// is compared with the stored bytes.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sidecar/tiers/disk/disk_tier.h"
#include "tests/bench/fio_arm.h"
#include "tests/bench/report.h"
#include "tests/conformance/tier_chunks.h"

namespace {

using namespace larder;
using tiers::testing_support::Loop;
using tiers::testing_support::Slot;

constexpr std::uint64_t kPayload = 2 << 20;
constexpr std::uint64_t kPiece = 128 << 10;
constexpr std::uint64_t kFileBytes = 4ULL << 30;
constexpr std::size_t kSources = 32;      // different chunks' bytes
constexpr std::size_t kInFlight = 8;      // of the tier: a loop needs no hand-over between threads
constexpr std::size_t kOperations = 128;  // of one arm in one round
constexpr int kRounds = 9;
const std::uint64_t kSlot = protocol::slot_bytes(kPayload, kPiece);

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "bench-disk: %s\n", what);
  std::exit(1);
}

double seconds() {
  return static_cast<double>(base::MonotonicClock().now_ns()) / 1e9;
}
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Measured {
  double gbs = 0, cpu_share = 0;
  std::vector<double> read_ms;
};

class TierArm {
 public:
  TierArm(const std::string& path, std::span<std::byte> arena) {
    options_.path = path;
    options_.size_bytes = kFileBytes;
    if (std::getenv("DISK_UNREGISTERED") == nullptr) options_.arena = arena;
    Result<std::unique_ptr<tiers::Tier>> opened = disk::open_disk_tier(env_, clock_, options_);
    if (!opened.ok()) std::fprintf(stderr, "%s\n", opened.status().to_string().c_str());
    must(opened.ok(), "no disk tier");
    tier_ = *std::move(opened);
    loop_.emplace(*tier_, clock_);
    for (std::size_t i = 0; i < kSources; ++i) {
      sources_.push_back(arena.subspan(i * kSlot, kSlot));
      facts_.push_back(tiers::testing_support::fill(sources_[i], i, 1, kPayload, kPiece));
    }
    for (std::size_t i = 0; i < kInFlight; ++i)
      targets_.push_back(arena.subspan((kSources + i) * kSlot, kSlot));
  }
  // kOperations reads, or appends, or both in turn.
  Measured run(bool reads, bool writes, std::size_t in_flight = kInFlight) {
    Measured measured;
    struct Going {
      tiers::Ticket ticket;
      std::size_t target;
      std::uint64_t number;
      double start;
      bool read;
    };
    std::deque<Going> going;
    std::vector<std::size_t> free_targets;
    for (std::size_t i = 0; i < kInFlight; ++i) free_targets.push_back(i);
    const double start = seconds(), cpu = processor_seconds();
    for (std::size_t i = 0; i < kOperations || !going.empty();) {
      while (i < kOperations && going.size() < in_flight) {
        const bool read = reads && (!writes || i % 2 == 0);
        const std::size_t target = free_targets.back();
        free_targets.pop_back();
        going.push_back({loop_->next(), target, read ? random_number() : next_++, seconds(), read});
        const Going& now = going.back();
        const tiers::ChunkKey key = tiers::testing_support::key_of(now.number);
        const std::size_t source = now.number % kSources;
        must((read ? tier_->get(now.ticket, key, targets_[target], loop_->in_ms(60'000))
                   : tier_->put(now.ticket, key, facts_[source], sources_[source],
                                loop_->in_ms(60'000)))
                 .ok(),
             "refused");
        ++i;
      }
      loop_->collect(1000);
      std::erase_if(going, [&](const Going& one) {
        if (loop_->of(one.ticket).empty()) return false;
        const Status& status = loop_->of(one.ticket)[0].status;
        must(status.ok(), ("an operation failed: " + status.to_string()).c_str());
        if (one.read) measured.read_ms.push_back((seconds() - one.start) * 1e3);
        last_read_[one.target] = one.read ? one.number : UINT64_MAX;
        free_targets.push_back(one.target);
        return true;
      });
    }
    const double wall = seconds() - start;
    measured.gbs = static_cast<double>(kOperations * kSlot) / wall / 1e9;
    measured.cpu_share = (processor_seconds() - cpu) / wall;
    verify();
    return measured;
  }
  void fill_up() {
    while (next_ * (kSlot + 4096) < kFileBytes - (300ULL << 20)) run(false, true);
  }
  tiers::TierCounters counters() const { return tier_->counters(); }

 private:
  // One that has been written, and cannot have been evicted since.
  std::uint64_t random_number() {
    const std::uint64_t there = (kFileBytes - (1100ULL << 20)) / (kSlot + 4096);
    return next_ - 1 - kInFlight - random_() % std::min(there, next_ - kInFlight);
  }
  void verify() {
    for (std::size_t i = 0; i < kInFlight; ++i) {
      if (last_read_[i] == UINT64_MAX) continue;
      must(std::memcmp(targets_[i].data(), sources_[last_read_[i] % kSources].data(), kSlot) == 0,
           "wrong bytes");
      last_read_[i] = UINT64_MAX;
    }
  }

  disk::Env env_;
  base::MonotonicClock clock_;
  disk::DiskOptions options_;
  std::unique_ptr<tiers::Tier> tier_;
  std::optional<Loop> loop_;
  std::vector<std::span<std::byte>> sources_, targets_;
  std::vector<tiers::ChunkFacts> facts_;
  std::vector<std::uint64_t> last_read_ = std::vector<std::uint64_t>(kInFlight, UINT64_MAX);
  std::uint64_t next_ = 0;
  std::mt19937_64 random_{20261121};
};

// From and to the tier's own slots: loops over zeros, or over one slot that stays in the
// processor's cache, would be faster by half.
class LoopArm {
 public:
  LoopArm(const std::string& path, std::span<std::byte> arena)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600)), arena_(arena) {
    must(file_.valid() && ::fallocate(file_.get(), 0, 0, static_cast<off_t>(kFileBytes)) == 0,
         "no file for the loops");
    for (std::uint64_t at = 0; at < kPlaces; ++at)
      must(::pwrite(file_.get(), slot(false, at), kSlot, static_cast<off_t>(at * kSlot)) ==
               static_cast<ssize_t>(kSlot),
           "pwrite");
  }
  double gbs(bool reads, int threads) {
    std::atomic<std::size_t> next{0};
    const double start = seconds();
    {
      std::vector<std::jthread> all;
      for (int t = 0; t < threads; ++t) {
        all.emplace_back([&, t] {
          std::mt19937_64 random(static_cast<std::uint64_t>(t) + ++seed_);
          for (std::size_t i = next++; i < kOperations; i = next++) {
            const auto at =
                static_cast<off_t>((reads ? random() % kPlaces : (append_ + i) % kPlaces) * kSlot);
            const ssize_t moved = reads ? ::pread(file_.get(), slot(true, i), kSlot, at)
                                        : ::pwrite(file_.get(), slot(false, i), kSlot, at);
            must(moved == static_cast<ssize_t>(kSlot), "a loop failed");
          }
        });
      }
    }
    append_ += reads ? 0 : kOperations;
    return static_cast<double>(kOperations * kSlot) / (seconds() - start) / 1e9;
  }

  static constexpr std::uint64_t kPlaces = 1900;

 private:
  std::byte* slot(bool reads, std::size_t i) const {
    return arena_.data() + (reads ? kSources + i % kInFlight : i % kSources) * kSlot;
  }

  Fd file_;
  std::span<std::byte> arena_;
  std::uint64_t append_ = 0;
  std::atomic<std::uint64_t> seed_{0};
};

// The results of the loop of each number of threads, and then of fio, in each round.
constexpr std::array<int, 3> kLoopThreads{1, 2, 4};
using Rounds = std::array<std::vector<double>, kLoopThreads.size() + 1>;

void run_others(LoopArm& loops, bench::FioArm& fio, bool reads, Rounds& rounds) {
  for (std::size_t i = 0; i < kLoopThreads.size(); ++i)
    rounds[i].push_back(loops.gbs(reads, kLoopThreads[i]));
  rounds.back().push_back(fio.gbs(reads, kOperations));
  must(rounds.back().back() > 0, "fio failed, or is not installed (.ci/packages.bench)");
}

double ratio_to_best(const std::vector<double>& tier, const Rounds& rounds) {
  const auto best = std::ranges::max_element(
      rounds, {}, [](const std::vector<double>& of) { return bench::median(of); });
  std::vector<double> ratios;
  for (std::size_t round = 0; round < tier.size(); ++round)
    ratios.push_back(tier[round] / (*best)[round]);
  return bench::median(ratios);
}

}  // namespace

// Usage: disk_bench [DIRECTORY of the JSON [DIRECTORY on the disk]]
int main(int argc, char** argv) {
  const std::string out = argc > 1 ? argv[1] : "build/bench";
  const std::string place = argc > 2 ? argv[2] : out;
  std::filesystem::create_directories(place);
  const std::string scratch = place + "/disk-scratch";
  std::filesystem::remove_all(scratch);
  std::filesystem::create_directory(scratch);
  bench::Report report("disk");
  {
    Slot arena((kSources + kInFlight) * kSlot);
    TierArm tier(scratch, arena.span());
    LoopArm loops(scratch + "/loop", arena.span());
    bench::FioArm fio(scratch + "/loop", kSlot, LoopArm::kPlaces, kInFlight);
    tier.fill_up();
    std::vector<double> reads, writes, cpu, alone_p99, mixed_p99;
    Rounds other_reads, other_writes;
    for (int round = 0; round < kRounds; ++round) {
      run_others(loops, fio, true, other_reads);
      const Measured read = tier.run(true, false);
      run_others(loops, fio, false, other_writes);
      const Measured write = tier.run(false, true);
      // Beside as many writes, and alone, with the same number of reads in flight.
      const Measured mixed = tier.run(true, true);
      const Measured alone = tier.run(true, false, kInFlight / 2);
      reads.push_back(read.gbs);
      writes.push_back(write.gbs);
      cpu.push_back(std::max(read.cpu_share, write.cpu_share));
      alone_p99.push_back(bench::percentile(alone.read_ms, 0.99));
      mixed_p99.push_back(bench::percentile(mixed.read_ms, 0.99));
      report.add_row({{"round", static_cast<double>(round + 1)},
                      {"loop1 read_gbs", other_reads[0].back()},
                      {"loop2 read_gbs", other_reads[1].back()},
                      {"loop4 read_gbs", other_reads[2].back()},
                      {"fio read_gbs", other_reads[3].back()},
                      {"tier read_gbs", read.gbs},
                      {"loop1 write_gbs", other_writes[0].back()},
                      {"loop2 write_gbs", other_writes[1].back()},
                      {"loop4 write_gbs", other_writes[2].back()},
                      {"fio write_gbs", other_writes[3].back()},
                      {"tier write_gbs", write.gbs},
                      {"read cpu", read.cpu_share},
                      {"write cpu", write.cpu_share},
                      {"read p99_ms", alone_p99.back()},
                      {"mixed read p99_ms", mixed_p99.back()}});
    }
    const tiers::TierCounters counters = tier.counters();
    report.add_goal("disk.read_ratio", ratio_to_best(reads, other_reads), ">=", 0.95);
    report.add_goal("disk.write_ratio", ratio_to_best(writes, other_writes), ">=", 0.95);
    report.add_goal("disk.cpu_share", bench::median(cpu), "<=", 0.25);
    report.add_goal(
        "disk.write_amplification",
        static_cast<double>(counters.written_bytes) / static_cast<double>(counters.put_bytes),
        "<=", 1.02);
    report.add_goal("disk.mixed_p99_ratio", bench::median(mixed_p99) / bench::median(alone_p99),
                    "<=", 3);
  }
  std::filesystem::remove_all(scratch);
  return report.finish(out) ? 0 : 1;
}
