// SimTier: the disk tier's engine over a SimDisk, one turn at a time. Owned by one thread.
#pragma once

#include <vector>

#include "tests/sim/sim_chunks.h"
#include "tests/sim/sim_env.h"

namespace larder::sim {

class SimTier {
 public:
  // Both outlive the object.
  SimTier(SimDisk& device, Random& random, const disk::DiskOptions& told = volume_options())
      : env(clock, device, random), options(told) {}

  Status start() { return engine.start(); }
  // One turn, after `us` microseconds. Appends the outcomes.
  void step(std::uint64_t us, std::vector<disk::Outcome>& outcomes) {
    clock.advance_us(us);
    engine.turn(0);
    engine.take_outcomes(outcomes);
  }
  // A command for the chunk of this number, or for its namespace, with a deadline beyond all waits.
  disk::Command command(tiers::Operation operation, std::uint64_t number) {
    disk::Command made;
    made.operation = operation;
    made.ticket = ++ticket_;
    made.key = key_of(number);
    made.deadline_ns = clock.now_ns() + 60'000'000'000;
    return made;
  }
  // Executes the command and waits for its end. REQUIRES: no other command is in flight.
  tiers::Message ended(const disk::Command& command) {
    engine.accept(command);
    std::vector<disk::Outcome> outcomes;
    for (int i = 0; i < 100'000 && outcomes.empty(); ++i) step(1000, outcomes);
    return outcomes.empty() ? tiers::Message{} : outcomes.front().message;
  }
  tiers::Message get(std::uint64_t number, std::span<std::byte> slot) {
    disk::Command wanted = command(tiers::Operation::kGet, number);
    wanted.slot = slot;
    return ended(wanted);
  }

  SimClock clock;
  SimEnv env;
  const disk::DiskOptions options;
  disk::Catalog catalog;
  disk::DiskEngine engine{env, clock, options, catalog};

 private:
  tiers::Ticket ticket_ = 0;
};

}  // namespace larder::sim
