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
  std::printf(
      "seeds %llu to %llu: %llu steps, %llu faults, %llu lives of larderd, %llu times no power; %llu chunks stored, %llu loaded "
      "and "
      "right, %llu misses, %llu written down, %llu brought up\n",
      static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + count - 1),
      static_cast<unsigned long long>(tally.steps), static_cast<unsigned long long>(tally.faults),
      static_cast<unsigned long long>(tally.lives), static_cast<unsigned long long>(tally.power_losses),
      static_cast<unsigned long long>(tally.stored), static_cast<unsigned long long>(tally.loaded),
      static_cast<unsigned long long>(tally.misses), static_cast<unsigned long long>(tally.went_down),
      static_cast<unsigned long long>(tally.came_up));
  return 0;
}
