// sim [--backend] [COUNT [SEED]]: COUNT seeds from SEED on (default 100 from 1), each a whole
// machine in one thread; with --backend also a server that other larderd use too. Ends at the first
// broken rule, with the seed, the steps, and the command to run the seed again. Every hundredth
// seed runs twice and must do the same.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "sidecar/base/log.h"
#include "tests/sim/sim_run.h"

namespace {

using namespace larder;

std::uint64_t number(const char* text) {
  return std::strtoull(text, nullptr, 10);
}

int fail(std::uint64_t seed, bool shared, const std::vector<std::string>& steps,
         const std::string& what) {
  for (std::size_t i = 0; i < steps.size(); ++i) std::printf("%5zu  %s\n", i, steps[i].c_str());
  std::printf("FAILED: seed %llu: %s\nagain: sim%s 1 %llu\n", static_cast<unsigned long long>(seed),
              what.c_str(), shared ? " --backend" : "", static_cast<unsigned long long>(seed));
  return 1;
}

void add(sim::Tally& sum, const sim::Tally& one) {
  sum.steps += one.steps;
  sum.faults += one.faults;
  sum.lives += one.lives;
  sum.power_losses += one.power_losses;
  sum.stored += one.stored;
  sum.loaded += one.loaded;
  sum.misses += one.misses;
  sum.went_down += one.went_down;
  sum.came_up += one.came_up;
  sum.fetch_hits += one.fetch_hits;
  sum.to_backend += one.to_backend;
  sum.from_backend += one.from_backend;
  sum.probes += one.probes;
  sum.families_found += one.families_found;
  sum.given_back += one.given_back;
  sum.places_reused += one.places_reused;
  sum.namespaces_evicted += one.namespaces_evicted;
}

}  // namespace

int main(int argc, char** argv) {
  base::set_log_level(static_cast<base::LogLevel>(static_cast<int>(base::LogLevel::kError) + 1));
  const bool shared = argc > 1 && std::string_view(argv[1]) == "--backend";
  if (shared) --argc, ++argv;
  const std::uint64_t count = argc > 1 ? number(argv[1]) : 100,
                      first = argc > 2 ? number(argv[2]) : 1;
  sim::Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::SimRun run(seed, shared);
    if (const std::string broken = run.run(); !broken.empty())
      return fail(seed, shared, run.steps(), broken);
    add(tally, run.tally());
    if (seed % 100 != 0) continue;
    sim::SimRun again(seed, shared);
    again.run();
    if (again.steps() != run.steps())
      return fail(seed, shared, again.steps(), "it does not do the same a second time");
  }
  const auto say = [](const char* what, std::uint64_t figure) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(figure), what);
  };
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + count - 1));
  say("steps", tally.steps);
  say("faults", tally.faults);
  say("lives of larderd", tally.lives);
  say("times no power", tally.power_losses);
  say("chunks stored", tally.stored);
  say("chunks loaded and right", tally.loaded);
  say("misses", tally.misses);
  say("chunks written down", tally.went_down);
  say("chunks brought up", tally.came_up);
  say("families fetched", tally.fetch_hits);
  say("handles of namespaces given back", tally.given_back);
  say("places used again", tally.places_reused);
  say("namespaces evicted for their place", tally.namespaces_evicted);
  if (!shared) return 0;
  say("chunks written to the backend", tally.to_backend);
  say("chunks brought up from it", tally.from_backend);
  say("looks that it answered", tally.probes);
  say("families found by looks", tally.families_found);
  return 0;
}
