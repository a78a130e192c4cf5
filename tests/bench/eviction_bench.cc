// bench eviction: the tokens that larderd's policies hit, against eight rivals.
//
// Each trace runs through memories of 1,000 to 50,000 chunks, smaller than the trace. The first
// fifth of the requests fills the memory and does not count. A hit ends at the first missing chunk.
// The best rival of a cell is the one with the most tokens. A cell in which no rival hits a
// hundredth of the tokens is left out. The seconds of prefill saved take a chunk to cost more the
// deeper it stands: kSecondsAToken, and as much again at kDoubleDepth tokens.
//
// Goals: the worst and the middle cell against the best rival; the geometric mean over LRU of the
// cells of at most 5,000 chunks in which the best rival hits 1.1 times LRU; the worst share of hits
// of regular prompts that is left under a flood of half of the traffic; the processor time of the
// policy for a chunk.
//
// Usage: eviction_bench [DIRECTORY of the JSON] [TRACE] [SEED]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sidecar/ctl/trace_file.h"
#include "sidecar/store/adaptive.h"
#include "tests/bench/eviction_rivals.h"
#include "tests/bench/eviction_traces.h"
#include "tests/bench/report.h"

namespace {

using namespace larder;

constexpr std::uint64_t kChunksAsked = 400'000, kSmall = 5000;
constexpr std::uint64_t kSizes[] = {1000, 2000, 5000, 10'000, 20'000, 50'000};
constexpr double kWarmUp = 0.2, kLeastHits = 0.01, kClearGain = 1.1;
constexpr double kSecondsAToken = 1e-4, kDoubleDepth = 32768;

struct Score {
  double tokens = 0, hits = 0, seconds = 0;  // hits: tokens
  double regular = 0, regular_hits = 0;      // without one-time prompts
  double ratio() const { return tokens == 0 ? 0 : hits / tokens; }
  double regular_ratio() const { return regular == 0 ? 0 : regular_hits / regular; }
};

Score run(const bench::EvictionTrace& trace, std::string_view policy, std::uint64_t chunks) {
  const auto warm_up =
      static_cast<std::size_t>(kWarmUp * static_cast<double>(trace.requests.size()));
  Score score;
  sizing::replay(trace.requests, *bench::make_rival(policy, chunks),
                 [&](std::size_t i, std::size_t hit) {
                   if (i < warm_up) return;
                   const auto tokens = static_cast<double>(trace.requests[i].tokens);
                   const auto hits = static_cast<double>(trace.requests[i].tokens_of(hit));
                   score.tokens += tokens;
                   score.hits += hits;
                   score.seconds += kSecondsAToken * (hits + hits * hits / (2 * kDoubleDepth));
                   if (trace.once[i]) return;
                   score.regular += tokens;
                   score.regular_hits += hits;
                 });
  return score;
}

struct Goals {
  double vs_best = INFINITY, seconds_vs_best = INFINITY, scan_kept = INFINITY;
  std::vector<double> all_vs_best, small_vs_lru;
  std::map<std::pair<std::string, std::uint64_t>, double> calm;  // regular hits of adaptive
};

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? 1 : std::exp(sum / static_cast<double>(values.size()));
}

void run_cell(const bench::EvictionTrace& trace, std::uint64_t chunks, bench::Report& report,
              Goals& goals) {
  Score best, lru;
  std::string best_name;
  double best_seconds = 0;
  for (const std::string_view rival : bench::rivals()) {
    const Score score = run(trace, rival, chunks);
    if (rival == "lru") lru = score;
    best_seconds = std::max(best_seconds, score.seconds);
    if (score.hits <= best.hits) continue;
    best = score;
    best_name = rival;
  }
  const Score ours = run(trace, "adaptive", chunks);
  goals.calm[{trace.name, chunks}] = ours.regular_ratio();
  if (best.ratio() < kLeastHits) return;
  const double vs_best = ours.hits / best.hits;
  goals.vs_best = std::min(goals.vs_best, vs_best);
  goals.all_vs_best.push_back(vs_best);
  goals.seconds_vs_best = std::min(goals.seconds_vs_best, ours.seconds / best_seconds);
  if (chunks <= kSmall && lru.hits > 0 && best.hits >= kClearGain * lru.hits)
    goals.small_vs_lru.push_back(ours.hits / lru.hits);
  const auto calm = goals.calm.find({trace.calm, chunks});
  if (trace.name.ends_with("50%") && calm != goals.calm.end())
    goals.scan_kept = std::min(goals.scan_kept, ours.regular_ratio() / calm->second);
  report.add_row({{"trace", trace.name},
                  {"chunks", static_cast<double>(chunks)},
                  {"lru_percent", 100 * lru.ratio()},
                  {"best_rival", best_name},
                  {"best_percent", 100 * best.ratio()},
                  {"adaptive_percent", 100 * ours.ratio()},
                  {"vs_best", vs_best},
                  {"vs_lru", lru.hits == 0 ? 0 : ours.hits / lru.hits},
                  {"seconds_vs_best", ours.seconds / best_seconds}});
}

void run_trace(const bench::EvictionTrace& trace, bench::Report& report, Goals& goals) {
  const std::uint64_t distinct =
      sizing::distinct_bytes(trace.requests) / trace.requests.front().chunk_bytes;
  for (const std::uint64_t chunks : kSizes)
    if (chunks < distinct) run_cell(trace, chunks, report, goals);
}

// Of three operations two are uses, and one evicts and stores; victims come in batches, as in the
// store.
double ns_a_chunk() {
  constexpr std::uint32_t kSlots = 50'000, kBatch = 195;
  constexpr int kRounds = 5, kSteps = 5000;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    store::SlotTable table(kSlots);
    store::Adaptive policy(table, kSlots);
    std::vector<std::uint32_t> victims(kBatch);
    std::vector<std::uint64_t> names(kSlots);
    std::mt19937_64 random(7);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      policy.stored(table.take(), names[slot] = random(), store::kNoSlot);
      policy.insert(slot, 0);
    }
    const std::clock_t begin = std::clock();
    for (int step = 0; step < kSteps; ++step) {
      for (std::uint32_t use = 0; use < 2 * kBatch; ++use) {
        const auto slot = static_cast<std::uint32_t>(random() % kSlots);
        policy.erase(slot, 0);
        policy.used(slot);
        policy.insert(slot, 0);
      }
      policy.first_victims(0, victims);
      for (const std::uint32_t slot : victims) {
        policy.erase(slot, 0);
        policy.evicted(slot, names[slot]);
        policy.stored(slot, names[slot] = random(), store::kNoSlot);
        policy.insert(slot, 0);
      }
    }
    rounds.push_back(1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC /
                     (3.0 * kBatch * kSteps));
  }
  return bench::median(rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at) { return std::string(argc > at ? argv[at] : ""); };
  const std::uint64_t seed = argument(3).empty() ? 1 : std::strtoull(argv[3], nullptr, 10);
  std::vector<bench::EvictionTrace> traces = bench::eviction_traces(seed, kChunksAsked);
  if (const std::string file = argument(2); !file.empty()) {
    auto read = ctl::read_traces(std::span(&file, 1), 1);
    if (!read.ok())
      return std::fprintf(stderr, "eviction_bench: %s\n", read.status().text().c_str()), 1;
    for (sizing::TracedRequest& request : *read) request.chunk_bytes = 1;
    const std::vector<bool> once(read->size());
    traces.push_back({file.substr(file.rfind('/') + 1), *std::move(read), once, ""});
  }
  bench::Report report("eviction");
  Goals goals;
  for (const bench::EvictionTrace& trace : traces) run_trace(trace, report, goals);
  report.add_goal("eviction.vs_best", goals.vs_best, ">=", 0.98);
  report.add_goal("eviction.vs_best_median", bench::median(goals.all_vs_best), ">=", 1);
  report.add_goal("eviction.seconds_vs_best", goals.seconds_vs_best, ">=", 0.98);
  report.add_goal("eviction.small_vs_lru", geometric_mean(goals.small_vs_lru), ">=", 1.25);
  report.add_goal("eviction.scan_kept", goals.scan_kept, ">=", 0.9);
  report.add_goal("eviction.ns_a_chunk", ns_a_chunk(), "<=", 250);
  const std::string folder = argument(1).empty() ? "build/bench" : argument(1);
  return report.finish(folder) ? 0 : 1;
}
