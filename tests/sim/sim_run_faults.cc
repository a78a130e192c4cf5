// The faults of a run: of the disk, the server, the machine and its power.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "tests/sim/sim_run.h"

namespace larder::sim {

void SimRun::fault() {
  ++tally_.faults;
  DeviceFaults& device = machine_.env.faults;
  const std::size_t which = machine_.below(kEngines);
  SimEngine& one = engine(which);
  const std::string name = "engine " + std::to_string(which) + " ";
  switch (machine_.below(14)) {
    case 0:
    case 1:
      if (larderd_) end_larderd(true);
      return;
    case 2:
      if (larderd_) end_larderd(false);
      return;
    case 3: return end_engine(which);
    case 4:
      if (!larderd_ || !one.attached() || one.silent()) return;
      larderd_->end_session(*std::prev(one.sessions().end()));
      one.lose_session(false);
      return note(name + "is cut off");
    case 5:
      if (one.silent() || !larderd_ || !one.attached()) return;
      one.set_silent(larderd_.get(), true);
      return note(name + "is stopped");
    case 6: device.write_error = EIO; return note("writes fail");
    case 7: device.write_error = ENOSPC; return note("the disk is full");
    case 8: device.read_error = EIO; return note("reads fail");
    case 9:
      device.stalled = true;
      note("the disk stalls");
      return machine_.one_in(4) ? pass_time(machine_.below(30)) : void();
    case 10:
      device.away = true;
      note("the directory is away");
      return machine_.one_in(2) ? pass_time(machine_.below(20)) : void();
    case 11: return machine_.one_in(2) ? damage_disk() : larderd_ ? damage_arena() : damage_index();
    case 12:
      note("time passes");
      return machine_.one_in(3) ? pass_time(machine_.below(40))
                                : machine_.clock.advance_us(1000 * machine_.below(40));
    default:
      if (machine_.one_in(3)) lose_power();
      return;
  }
}

void SimRun::server_fault() {
  SimServer& server = *machine_.server;
  switch (machine_.below(5)) {
    case 0: server.away = true; return note("the server is away");
    case 1: server.flaky = true; return note("connections to the server break");
    case 2: server.slow = true; return note("the server is slow");
    case 3:
      server.chunks.clear();
      ++server.life;
      return note("the server begins anew, empty");
    default:
      for (auto next = server.chunks.begin(); next != server.chunks.end();)
        next = machine_.one_in(2) ? server.chunks.erase(next) : std::next(next);
      return note("the server evicts half of its keys");
  }
}

void SimRun::heal() {
  if (machine_.server)
    machine_.server->away = machine_.server->flaky = machine_.server->slow = false;
  if (machine_.env.faults.write_error + machine_.env.faults.read_error != 0 ||
      machine_.env.faults.stalled || machine_.env.faults.away)
    note("the disk is well again");
  // These take longer.
  const bool stalled = machine_.env.faults.stalled && !machine_.one_in(3),
             away = machine_.env.faults.away && !machine_.one_in(3);
  machine_.env.faults = {};
  machine_.env.faults.stalled = stalled;
  machine_.env.faults.away = away;
}

void SimRun::damage_disk() {
  if (machine_.disk.size() == 0) return;
  const std::uint64_t at = machine_.below(machine_.disk.size());
  std::vector<std::byte> noise(
      1 + machine_.below(std::min<std::uint64_t>(600, machine_.disk.size() - at)));
  for (std::byte& byte : noise) byte = static_cast<std::byte>(machine_.random());
  machine_.disk.damage(at, noise);
  machine_.disk_damaged = true;
  note("bytes of the disk change at " + std::to_string(at));
}

// Not under a read of the device, since SimEnv reports such changes.
void SimRun::damage_arena() {
  if (larderd_->disk().reads_memory()) return;
  const std::uint64_t at = machine_.below(Machine::kArenaBytes);
  machine_.arena.data()[at] ^= static_cast<std::byte>(1 << machine_.below(8));
  machine_.arena_damage.push_back(at);
  note("a byte of the arena changes at " + std::to_string(at));
}

// Damages the index that engines map and the next larderd reads, except for the header.
void SimRun::damage_index() {
  if (machine_.indexes.empty()) return;
  Pages& memory = machine_.indexes.back()->memory;
  const std::uint64_t at = 4096 + machine_.below(memory.size() - 4096);
  memory.data()[at] ^= static_cast<std::byte>(1 << machine_.below(8));
  machine_.index_damaged = true;
  note("a byte of the index changes at " + std::to_string(at));
}

void SimRun::lose_power() {
  note("the power goes");
  ++tally_.power_losses;
  SimDisk left = machine_.disk.after_power_loss(machine_.random);
  if (larderd_) end_larderd(true);
  machine_.disk = std::move(left);
  machine_.indexes.clear();
  for (std::size_t which = 0; which < kEngines; ++which) end_engine(which);
  machine_.arena = Pages(Machine::kArenaBytes);
}

}  // namespace larder::sim
