#include "tests/sim/sim_run.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace larder::sim {

std::string SimRun::run() {
  try {
    for (auto& engine : engines_) engine = std::make_unique<SimEngine>(machine_, model_);
    start_larderd();
    const std::uint64_t count = 200 + machine_.below(800);
    for (std::uint64_t i = 0; i < count; ++i) step();
    come_to_rest();
    round_trip();
    for (const auto& engine : engines_) {
      tally_.loaded += engine->loaded;
      tally_.stored += engine->stored;
      tally_.misses += engine->misses;
    }
    end_larderd(true);
  } catch (const Broken& broken) {
    return broken.what();
  }
  return "";
}

void SimRun::note(std::string what) {
  if (!what.empty()) steps_.push_back(std::move(what));
}

void SimRun::step() {
  ++tally_.steps;
  machine_.clock.advance_us(machine_.below(3000));
  if (machine_.one_in(20)) {
    fault();
  } else if (machine_.below(3) != 0) {
    engine_step();
  } else {
    larderd_step();
  }
  if (larderd_) larderd_->turn();
  if (machine_.one_in(40)) heal();
  // Whom nobody waits for any more.
  for (const auto& engine : engines_)
    if (larderd_ && !larderd_->settling() && !engine->attached()) engine->lose_session(false);
}

// A part of them is in fashion.
std::uint64_t SimRun::any_number() {
  const std::uint64_t number = machine_.below(machine_.one_in(2) ? kNumbers : kNumbers / 6);
  return exists(number) ? number : number - 1;
}

void SimRun::engine_step() {
  const std::size_t which = machine_.below(kEngines);
  SimEngine& one = engine(which);
  const std::string name = "engine " + std::to_string(which) + " ";
  const std::uint64_t number = any_number(), what = machine_.below(24);
  if (one.silent()) return;
  if (!one.attached() && larderd_ && what < 4) {
    one.attach(*larderd_);
    return note(name + "attaches");
  }
  std::string done;
  const bool asks = one.attached() && larderd_;
  if (what < 3) {
    if (asks) done = one.begin_store(*larderd_, number);
  } else if (what < 8) {
    done = one.go_on_storing(larderd_.get());
  } else if (what < 12) {
    done = one.begin_load(number);
  } else if (what < 18) {
    done = one.go_on_loading(larderd_.get());
  } else if (what < 21) {
    done = one.let_go();
  } else if (asks && !one.present(number)) {
    larderd_->fetch(number);
    done = "fetches chunk " + std::to_string(number);
  }
  note(done.empty() ? "" : name + done);
}

void SimRun::larderd_step() {
  if (!larderd_) {
    if (machine_.below(4) == 0) start_larderd();
    return;
  }
  switch (machine_.below(12)) {
    case 0: larderd_->flush(); return note("larderd flushes");
    case 1:
      if (!machine_.one_in(4)) return;
      {
        const std::uint64_t space = machine_.below(kSpaces);
        note("namespace " + std::to_string(space) + " is dropped");
        return larderd_->drop(space);
      }
    case 2:
    case 3: return larderd_->let_go_one();
    case 4:
    case 5: return larderd_->tick();
    default: return larderd_->write_down();
  }
}

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
      if (!one.silent() && (!larderd_ || !one.attached())) return;
      one.set_silent(larderd_.get(), !one.silent());
      return note(name + (one.silent() ? "is stopped" : "goes on"));
    case 6: device.write_error = EIO; return note("writes fail");
    case 7: device.write_error = ENOSPC; return note("the disk is full");
    case 8: device.read_error = EIO; return note("reads fail");
    case 9: device.stalled = true; return note("the disk stalls");
    case 10: device.away = true; return note("the directory is away");
    case 11: return machine_.one_in(2) ? damage_disk() : larderd_ ? damage_arena() : damage_index();
    case 12: machine_.clock.advance_us(1000 * machine_.below(40)); return note("time passes");
    default:
      if (machine_.one_in(3)) lose_power();
      return;
  }
}

void SimRun::heal() {
  if (machine_.env.faults.write_error + machine_.env.faults.read_error != 0 || machine_.env.faults.stalled ||
      machine_.env.faults.away)
    note("the disk is well again");
  machine_.env.faults = {};
}

void SimRun::damage_disk() {
  if (machine_.disk.size() == 0) return;
  const std::uint64_t at = machine_.below(machine_.disk.size());
  std::vector<std::byte> noise(1 + machine_.below(std::min<std::uint64_t>(600, machine_.disk.size() - at)));
  for (std::byte& byte : noise) byte = static_cast<std::byte>(machine_.random());
  machine_.disk.damage(at, noise);
  machine_.disk_damaged = true;
  note("bytes of the disk change at " + std::to_string(at));
}

// Not under the device, whose reading is watched.
void SimRun::damage_arena() {
  if (larderd_->writes_from_memory()) return;
  const std::uint64_t at = machine_.below(Machine::kArenaBytes);
  machine_.arena.data()[at] ^= static_cast<std::byte>(1 << machine_.below(8));
  machine_.arena_damage.push_back(at);
  note("a byte of the arena changes at " + std::to_string(at));
}

// What an engine has mapped and the next larderd reads: everything but the header.
void SimRun::damage_index() {
  if (machine_.indexes.empty()) return;
  Pages& memory = machine_.indexes.back()->memory;
  const std::uint64_t at = 4096 + machine_.below(memory.size() - 4096);
  memory.data()[at] ^= static_cast<std::byte>(1 << machine_.below(8));
  machine_.index_damaged = true;
  note("a byte of the index changes at " + std::to_string(at));
}

void SimRun::start_larderd() {
  std::set<SessionNumber> alive;
  for (const auto& engine : engines_) alive.merge(engine->sessions());
  auto next = std::make_unique<SimLarderd>(machine_, model_);
  const Status status = next->start(alive);
  note(status.ok() ? "larderd starts" : "larderd cannot start: " + status.text());
  if (!status.ok()) return;
  larderd_ = std::move(next);
  ++tally_.lives;
}

void SimRun::end_larderd(bool killed) {
  const bool good = !killed && larderd_->close();
  note(killed ? "larderd is killed" : good ? "larderd stops" : "larderd stops, and the disk does not answer");
  tally_.went_down += larderd_->went_down;
  tally_.came_up += larderd_->came_up;
  larderd_.reset();
  for (const auto& engine : engines_) engine->lose_session(true);
}

void SimRun::end_engine(std::size_t which) {
  note("engine " + std::to_string(which) + " dies");
  const std::set<SessionNumber> sessions = engine(which).sessions();
  if (larderd_) larderd_->process_ended(sessions);
  tally_.loaded += engine(which).loaded;
  tally_.stored += engine(which).stored;
  tally_.misses += engine(which).misses;
  engines_[which] = std::make_unique<SimEngine>(machine_, model_);
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

void SimRun::come_to_rest() {
  note("from here on nothing fails");
  machine_.patient = true;
  machine_.env.faults = {};
  for (int i = 0; !larderd_ && i < 3; ++i) start_larderd();
  must(larderd_ != nullptr, "larderd does not start any more");
  for (std::size_t which = 0; which < kEngines; ++which) {
    SimEngine& one = engine(which);
    if (one.silent()) one.set_silent(larderd_.get(), false);
    if (!one.attached()) one.attach(*larderd_);
    for (int i = 0; one.busy() && i < 1000; ++i) {
      note(one.go_on_storing(larderd_.get()));
      note(one.go_on_loading(larderd_.get()));
      one.let_go();
    }
    must(!one.busy(), "an engine does not come to rest");
  }
  turn_until_idle();
  for (std::uint64_t space = 0; space < kSpaces; ++space) larderd_->drop(space);
  turn_until_idle();
  stats::Stats stats;
  larderd_->memory().fill(stats);
  must(stats.slots_granted == 0 && stats.slots_quarantined == 0, "slots are granted or quarantined to nobody");
  must(stats.slots_committed == 0 && stats.used_bytes == 0, "chunks are left after a drop of all");
  for (const stats::SlotSizeStats& size : stats.slot_sizes) must(size.used == 0, "slots are in use by nobody");
  must(!larderd_->degraded(), "the disk is degraded for ever: " + larderd_->why_degraded());
}

void SimRun::turn_until_idle() {
  for (int i = 0; i < 20'000; ++i) {
    if (larderd_->idle() && !larderd_->degraded() && !larderd_->settling()) break;
    machine_.clock.advance_us(5000);
    larderd_->turn();
    larderd_->write_down();
    larderd_->let_go_one();
    larderd_->tick();
  }
  must(larderd_->idle(), "the disk's operations do not come to an end");
  larderd_->tick();
}

// What is stored, written down and flushed is there after the machine's death.
void SimRun::round_trip() {
  const std::uint64_t number = any_number();
  note("a chunk is stored, written down, lost with the memory, and fetched again");
  note(engine(0).begin_store(*larderd_, number));
  while (engine(0).busy()) note(engine(0).go_on_storing(larderd_.get()));
  if (!engine(0).present(number)) return;  // it was disowned
  turn_until_idle();
  must(larderd_->on_disk(number), "a chunk was not written down");
  const std::uint64_t flushes = larderd_->flushes;
  larderd_->flush();
  turn_until_idle();
  must(larderd_->flushes == flushes + 1, "a flush failed on a disk that is well");
  lose_power();
  start_larderd();
  must(larderd_ != nullptr, "larderd does not start after the loss of power");
  engine(0).attach(*larderd_);
  if (machine_.disk_damaged && !larderd_->on_disk(number)) return;  // the trailer of the region that was open, perhaps
  must(larderd_->on_disk(number), "what was flushed is gone");
  larderd_->fetch(number);
  for (int i = 0; i < 1000 && !engine(0).present(number); ++i) {
    machine_.clock.advance_us(5000);
    larderd_->turn();
  }
  const std::uint64_t before = engine(0).loaded;
  note(engine(0).begin_load(number));
  for (int i = 0; i < 3; ++i) note(engine(0).go_on_loading(larderd_.get()));
  must(engine(0).loaded == before + 1, "what was fetched cannot be loaded");
}

}  // namespace larder::sim
