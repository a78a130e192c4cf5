// bench curve: larderd's estimate of its hit ratio at other sizes of its memory, against an exact
// LRU simulation.
//
// The trace is $TRACE (in the format of Mooncake or of larderctl trace), else a trace from a seed.
// A second trace from a seed has a hundred times as many chunks as the sample. The memory is set to
// several parts of the size that keeps all chunks; the estimate is read at 0.5, 1, 2 and 4 times
// each size. The cost of a chunk is measured over all chunks of the trace, which is made before the
// clock starts.
//
// Usage: curve_bench [DIRECTORY of the JSON] [TRACE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "sidecar/ctl/trace_file.h"
#include "sidecar/sizing/reuse_curve.h"
#include "tests/bench/report.h"
#include "tests/generated_trace.h"

namespace {

using namespace larder;

constexpr std::uint64_t kBlockBytes = 1 << 20;  // of traces that do not tell: only ratios count
constexpr double kMemories[] = {0.02, 0.05, 0.1, 0.2, 0.4};
constexpr int kRounds = 5;

using Trace = std::vector<sizing::TracedRequest>;

void ask(sizing::ReuseCurve& curve, const Trace& trace) {
  for (const sizing::TracedRequest& request : trace) {
    std::uint64_t tokens = 0;  // the last block may stand for fewer
    for (std::size_t i = 0; i < request.chunks.size(); ++i) {
      const std::uint64_t up_to = request.tokens_of(i + 1);
      curve.asked(request.chunks[i], request.chunk_bytes, static_cast<double>(up_to - tokens));
      tokens = up_to;
    }
    curve.asked_in_vain(static_cast<double>(request.tokens - tokens));
  }
}

double ns_a_chunk(const Trace& trace, std::uint64_t memory_bytes, std::size_t chunks) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    sizing::ReuseCurve curve(memory_bytes);
    // of the processor: the figure must be right on a busy machine as well
    const std::clock_t begin = std::clock();
    ask(curve, trace);
    rounds.push_back(1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC /
                     static_cast<double>(chunks));
  }
  return bench::median(rounds);
}

struct Worst {
  double points = 0, ns = 0;
};

bool run_trace(const std::string& name, const Trace& trace, bench::Report& report, Worst& worst) {
  const std::uint64_t distinct = sizing::distinct_bytes(trace);
  for (const double part : kMemories) {
    const auto memory = static_cast<std::uint64_t>(static_cast<double>(distinct) * part);
    sizing::ReuseCurve curve(memory);
    ask(curve, trace);
    stats::Estimate estimate;
    curve.fill(estimate);
    const double ns = ns_a_chunk(trace, memory, estimate.chunks_asked);
    worst.ns = std::max(worst.ns, ns);
    for (const stats::EstimatedHit& hit : estimate.hits) {
      const auto size = static_cast<std::uint64_t>(static_cast<double>(memory) * hit.factor);
      const Result<sizing::Simulated> exact = sizing::simulate(trace, "lru", size);
      if (!exact.ok()) return false;
      const double points = 100 * std::fabs(hit.ratio - exact->hit_ratio());
      worst.points = std::max(worst.points, points);
      report.add_row({{"trace", name},
                      {"memory_of_all", part},
                      {"size", std::string(hit.size)},
                      {"exact_percent", 100 * exact->hit_ratio()},
                      {"estimate_percent", 100 * hit.ratio},
                      {"error_points", points},
                      {"sampled", estimate.sampling_ratio},
                      {"ns_a_chunk", ns}});
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("curve");
  Worst worst;
  Trace trace = testing_support::GeneratedTrace({.seed = 1}).requests();
  std::string name = "generated, small";
  if (argc > 2 && *argv[2] != '\0') {
    const std::string file = argv[2];
    Result<Trace> read = ctl::read_traces(std::span(&file, 1), kBlockBytes);
    if (!read.ok())
      return std::fprintf(stderr, "curve_bench: %s\n", read.status().text().c_str()), 1;
    trace = *std::move(read);
    name = file.substr(file.rfind('/') + 1);
  }
  if (!run_trace(name, trace, report, worst)) return 1;
  const testing_support::GeneratedTrace large(
      {.seed = 2, .requests = 200'000, .documents = 20'000, .conversations = 2000});
  if (!run_trace("generated, large", large.requests(), report, worst)) return 1;
  report.add_goal("curve.worst_error_points", worst.points, "<=", 2);
  report.add_goal("curve.ns_a_chunk", worst.ns, "<=", 1000);
  return report.finish(argc > 1 ? argv[1] : "build/bench") ? 0 : 1;
}
