// sim [COUNT [SEED]]: COUNT seeds from SEED on (without: 100 from 1), each a whole machine in one thread. Ends with the first rule that does
// not hold: its seed, its steps, and how to run it again. Every hundredth seed is run twice and must do the same.
#include <cstdio>
#include <cstdlib>

#include "sidecar/base/log.h"
#include "tests/sim/sim_run.h"

namespace {

using namespace larder;

std::uint64_t number(const char* text) {
  return std::strtoull(text, nullptr, 10);
}

int fail(std::uint64_t seed, const std::vector<std::string>& steps, const std::string& what) {
  for (std::size_t i = 0; i < steps.size(); ++i) std::printf("%5zu  %s\n", i, steps[i].c_str());
  std::printf("FAILED: seed %llu: %s\nagain: sim 1 %llu\n", static_cast<unsigned long long>(seed), what.c_str(),
              static_cast<unsigned long long>(seed));
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
  sum.families_fetched += one.families_fetched;
}

}  // namespace

int main(int argc, char** argv) {
  base::set_log_level(static_cast<base::LogLevel>(static_cast<int>(base::LogLevel::kError) + 1));
  const std::uint64_t count = argc > 1 ? number(argv[1]) : 100, first = argc > 2 ? number(argv[2]) : 1;
  sim::Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::SimRun run(seed);
    if (const std::string broken = run.run(); !broken.empty()) return fail(seed, run.steps(), broken);
    add(tally, run.tally());
    if (seed % 100 != 0) continue;
    sim::SimRun again(seed);
    again.run();
    if (again.steps() != run.steps()) return fail(seed, again.steps(), "it does not do the same a second time");
  }
  const auto say = [](const char* what, std::uint64_t figure) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(figure), what);
  };
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + count - 1));
  say("steps", tally.steps);
  say("faults", tally.faults);
  say("lives of larderd", tally.lives);
  say("times no power", tally.power_losses);
  say("chunks stored", tally.stored);
  say("chunks loaded and right", tally.loaded);
  say("misses", tally.misses);
  say("chunks written down", tally.went_down);
  say("chunks brought up", tally.came_up);
  say("families fetched", tally.families_fetched);
  return 0;
}
