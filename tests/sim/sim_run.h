// SimRun: one seed: a machine, one larderd after the other, three engines, and random steps, about
// one in twenty a fault. At the end all faults end, and the machine must come to rest.
//
// A seed replays exactly. Owned by one thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim_engine.h"

namespace larder::sim {

struct Tally {
  std::uint64_t steps = 0, faults = 0, lives = 0, power_losses = 0;
  std::uint64_t stored = 0, loaded = 0, misses = 0, went_down = 0, came_up = 0, fetch_hits = 0;
  std::uint64_t to_backend = 0, from_backend = 0, probes = 0, families_found = 0;
  std::uint64_t given_back = 0, places_reused = 0, namespaces_evicted = 0;
};

class SimRun {
 public:
  // `shared`: with a server that other larderd use too.
  SimRun(std::uint64_t seed, bool shared) : machine_(seed, shared) {}

  // The first broken rule; empty: every rule held.
  std::string run();
  const std::vector<std::string>& steps() const { return steps_; }  // descriptions, in order
  const Tally& tally() const { return tally_; }

 private:
  static constexpr std::size_t kEngines = 3;

  void step();
  void engine_step();
  std::string open_anew(SimEngine& one);
  void larderd_step();
  void ask_for(std::uint64_t number);
  void turn_larderd();
  void pass_time(std::uint64_t slices);
  void fault();
  void server_step();
  void server_fault();
  void heal();
  void damage_disk();
  void damage_arena();
  void damage_index();
  void note(std::string what);

  void start_larderd();
  void end_larderd(bool killed);
  void end_engine(std::size_t which);
  void add_up(const SimEngine& engine);
  void lose_power();
  void come_to_rest();
  void engines_come_to_rest();
  void look_at_below();
  void turn_until_idle();
  void round_trip();
  void fetch_and_load(std::uint64_t number);

  std::uint64_t any_number();
  template <typename Holds>
  std::uint64_t number_where(const Holds& holds);
  SimEngine& engine(std::size_t which) { return *engines_[which]; }

  Machine machine_;
  Model model_;
  std::unique_ptr<SimLarderd> larderd_;
  std::array<std::unique_ptr<SimEngine>, kEngines> engines_;
  std::vector<std::string> steps_;
  Tally tally_;
};

}  // namespace larder::sim
