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
    const std::uint64_t count = 500 + machine_.below(2000);
    for (std::uint64_t i = 0; i < count; ++i) step();
    come_to_rest();
    round_trip();
    for (const auto& engine : engines_) add_up(*engine);
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
    machine_.server&& machine_.one_in(2) ? server_fault() : fault();
  } else if (machine_.server && machine_.one_in(10)) {
    server_step();
  } else if (machine_.below(3) != 0) {
    engine_step();
  } else {
    larderd_step();
  }
  turn_larderd();
  if (machine_.one_in(12)) heal();
  // Whom nobody waits for any more.
  for (const auto& engine : engines_)
    if (larderd_ && !larderd_->settling() && !engine->attached()) engine->lose_session(false);
}

void SimRun::turn_larderd() {
  if (!larderd_) return;
  larderd_->turn();
  const std::vector<SimLarderd::Answer> answers = larderd_->take_answers();
  const std::vector<SimLarderd::LookAnswer> found = larderd_->take_look_answers();
  for (const auto& engine : engines_) {
    for (const SimLarderd::Answer& answer : answers) engine->fetched(answer);
    for (const SimLarderd::LookAnswer& answer : found) engine->looked(answer);
    engine->look_at_fetches(*larderd_);
  }
}

// As larderd's timer has it.
void SimRun::pass_time(std::uint64_t slices) {
  for (std::uint64_t i = 0; i < slices; ++i) {
    machine_.clock.advance_us(100'000);
    turn_larderd();
    if (larderd_) larderd_->tick();
  }
}

// A part of them is in fashion.
std::uint64_t SimRun::any_number() {
  const std::uint64_t number = machine_.below(machine_.one_in(2) ? kNumbers : kNumbers / 6);
  return exists(number) ? number : number - 1;
}

// One that it holds of, if there is one among a few.
template <typename Holds>
std::uint64_t SimRun::number_where(const Holds& holds) {
  std::uint64_t number = any_number();
  for (int i = 0; i < 4 && !holds(number); ++i) number = any_number();
  return number;
}

void SimRun::engine_step() {
  const std::size_t which = machine_.below(kEngines);
  SimEngine& one = engine(which);
  const std::string name = "engine " + std::to_string(which) + " ";
  const std::uint64_t what = machine_.below(35);
  if (one.silent()) {
    if (machine_.one_in(20)) one.set_silent(larderd_.get(), false);
    return note(one.silent() ? "" : name + "goes on");
  }
  if (!one.attached() && larderd_ && what < 12) {
    one.attach(*larderd_);
    return note(name + "attaches");
  }
  std::string done;
  const bool asks = one.attached() && larderd_;
  if (what < 6) {
    if (asks) done = one.begin_store(*larderd_, number_where([&](std::uint64_t number) { return !one.present(number); }));
  } else if (what < 15) {
    done = one.go_on_storing(larderd_.get());
  } else if (what < 19) {
    done = one.begin_load(number_where([&](std::uint64_t number) { return one.present(number); }));
  } else if (what < 26) {
    done = one.go_on_loading(larderd_.get());
  } else if (what < 28) {
    done = one.let_go();
  } else if (asks && what < 31) {
    const std::uint64_t number = number_where([&](std::uint64_t from) { return larderd_->below(from) && !one.present(from); });
    const std::uint64_t families = 1 + machine_.below(std::min<std::uint64_t>(4, kFamilies - family_of(number)));
    done = one.begin_fetch(*larderd_, number, families, static_cast<std::uint32_t>(5 + machine_.below(400)));
    if (machine_.one_in(25)) {
      note(name + done);
      turn_larderd();
      done = "drops what it fetches";
      larderd_->drop(space_of(number));
    }
  } else if (asks && what < 32) {
    done = one.end_fetch(*larderd_);
  } else if (what < 33) {
    done = one.close(larderd_.get(), machine_.below(kSpaces), machine_.one_in(2));
  } else if (asks) {
    done = what < 34 ? open_anew(one) : one.ask_under_closed(*larderd_, any_number());
  }
  note(done.empty() ? "" : name + done);
}

std::string SimRun::open_anew(SimEngine& one) {
  const std::uint64_t space = machine_.below(kSpaces);
  if (one.has_open(space)) return "";
  return (one.open(*larderd_, space) ? "opens namespace " : "finds no place for namespace ") + std::to_string(space);
}

void SimRun::larderd_step() {
  if (!larderd_) {
    if (machine_.below(4) == 0) start_larderd();
    return;
  }
  switch (machine_.below(12)) {
    case 0: larderd_->flush(); return note("larderd flushes");
    case 1: {
      if (!machine_.one_in(10)) return;
      const std::uint64_t space = machine_.below(kSpaces + 1);
      const bool known = larderd_->drop(space);
      return note(space == kSpaces ? "all is dropped"
                                   : "namespace " + std::to_string(space) + (known ? " is dropped" : " is not known"));
    }
    case 2: return ask_for(any_number());
    case 3:
    case 4:
    case 5: return larderd_->tick();
    default: return;
  }
}

void SimRun::ask_for(std::uint64_t number) {
  constexpr protocol::Verb kVerbs[] = {protocol::Verb::kPrefetch, protocol::Verb::kPrefetch, protocol::Verb::kPrefetch,
                                       protocol::Verb::kPin,      protocol::Verb::kUnpin,    protocol::Verb::kEvict};
  const protocol::Verb verb = kVerbs[machine_.below(std::size(kVerbs))];
  const std::uint64_t families = 1 + machine_.below(std::min<std::uint64_t>(3, kFamilies - family_of(number)));
  note("somebody asks to " + std::string(protocol::verb_name(verb)) + " " + std::to_string(families) + " families from chunk " +
       std::to_string(number) + " on");
  larderd_->act(verb, number, families);
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
      return machine_.one_in(3) ? pass_time(machine_.below(40)) : machine_.clock.advance_us(1000 * machine_.below(40));
    default:
      if (machine_.one_in(3)) lose_power();
      return;
  }
}

// What other larderd do there, and what an engine asks about it.
void SimRun::server_step() {
  SimServer& server = *machine_.server;
  const std::uint64_t number = any_number();
  switch (machine_.below(4)) {
    case 0: {
      if (server.away) return;
      SimServer::Chunk& chunk = server.chunks[number];
      chunk.bytes.assign(slot_bytes_of(number), std::byte{});
      chunk.facts = fill_chunk(chunk.bytes, number, ++machine_.others_generation);
      model_.committed(number, machine_.others_generation);
      return note("another larderd puts chunk " + std::to_string(number) + " into the backend");
    }
    case 1:
      if (server.chunks.erase(number) != 0) note("the backend evicts chunk " + std::to_string(number));
      return;
    default: {
      const std::size_t which = machine_.below(kEngines);
      if (!larderd_ || !engine(which).attached() || engine(which).silent()) return;
      const std::uint64_t families = 1 + machine_.below(std::min<std::uint64_t>(4, kFamilies - family_of(number)));
      const auto deadline_ms = static_cast<std::uint32_t>(5 + machine_.below(400));
      note("engine " + std::to_string(which) + " " + engine(which).begin_look(*larderd_, number, families, deadline_ms));
    }
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
      return note("the server begins anew, with nothing");
    default:
      for (auto next = server.chunks.begin(); next != server.chunks.end();)
        next = machine_.one_in(2) ? server.chunks.erase(next) : std::next(next);
      return note("the server evicts half of what it has");
  }
}

void SimRun::heal() {
  if (machine_.server) machine_.server->away = machine_.server->flaky = machine_.server->slow = false;
  if (machine_.env.faults.write_error + machine_.env.faults.read_error != 0 || machine_.env.faults.stalled ||
      machine_.env.faults.away)
    note("the disk is well again");
  // These take longer.
  const bool stalled = machine_.env.faults.stalled && !machine_.one_in(3), away = machine_.env.faults.away && !machine_.one_in(3);
  machine_.env.faults = {};
  machine_.env.faults.stalled = stalled;
  machine_.env.faults.away = away;
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
  if (larderd_->disk().reads_memory()) return;
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
  tally_.went_down += larderd_->disk().went_down;
  tally_.came_up += larderd_->disk().came_up;
  tally_.given_back += larderd_->namespaces().given_back;
  tally_.places_reused += larderd_->namespaces().reused;
  tally_.namespaces_evicted += larderd_->namespaces().evicted;
  if (const SimBackend* backend = larderd_->backend()) {
    tally_.to_backend += backend->went_down;
    tally_.from_backend += backend->came_up;
    tally_.looks += backend->looked;
  }
  larderd_.reset();
  for (const auto& engine : engines_) engine->lose_session(true);
}

void SimRun::end_engine(std::size_t which) {
  note("engine " + std::to_string(which) + " dies");
  const std::set<SessionNumber> sessions = engine(which).sessions();
  if (larderd_) larderd_->process_ended(sessions);
  add_up(engine(which));
  engines_[which] = std::make_unique<SimEngine>(machine_, model_);
}

void SimRun::add_up(const SimEngine& engine) {
  tally_.loaded += engine.loaded;
  tally_.stored += engine.stored;
  tally_.misses += engine.misses;
  tally_.families_fetched += engine.families_fetched;
  tally_.families_found += engine.families_found;
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
  if (machine_.server) machine_.server->away = machine_.server->flaky = machine_.server->slow = false;
  for (int i = 0; !larderd_ && i < 3; ++i) start_larderd();
  must(larderd_ != nullptr, "larderd does not start any more");
  machine_.crowded = false;
  larderd_->namespaces().crowd_leaves();
  engines_come_to_rest();
  turn_until_idle();
  look_at_below();
  larderd_->drop(kSpaces);
  turn_until_idle();
  stats::Stats stats;
  larderd_->fill(stats);
  must(stats.slots_granted == 0 && stats.slots_quarantined == 0, "slots are granted or quarantined to nobody");
  must(stats.slots_committed == 0 && stats.used_bytes == 0, "chunks are left after a drop of all");
  must(stats.kept_bytes == 0, "larderd keeps slots for nobody");
  for (const stats::SlotSizeStats& size : stats.slot_sizes) must(size.used == 0, "slots are in use by nobody");
  must(!larderd_->disk().state().degraded(), "the disk is degraded for ever: " + larderd_->disk().state().reason);
  for (std::uint64_t number = 0; number < kNumbers; ++number)
    must(!exists(number) || !larderd_->on_disk(number), "a chunk is on the disk after a drop of all");
  must(!machine_.server || machine_.server->chunks.empty(), "a chunk is in the backend after a drop of all");
  look_at_below();
  for (const auto& engine : engines_)
    for (std::uint64_t space = 0; space < kSpaces; ++space) note(engine->close(larderd_.get(), space, false));
  turn_larderd();
  must(larderd_->memory().namespaces().size() == 0, "a namespace that every session has closed is kept without a chunk");
}

// Some forget what they have fetched.
void SimRun::engines_come_to_rest() {
  for (std::size_t which = 0; which < kEngines; ++which) {
    SimEngine& one = engine(which);
    if (one.silent()) one.set_silent(larderd_.get(), false);
    if (!one.attached()) one.attach(*larderd_);
    const bool forgets = machine_.one_in(4);
    for (int i = 0; (one.busy() || (one.fetching() && !forgets)) && i < 1000; ++i) {
      note(one.go_on_storing(larderd_.get()));
      note(one.go_on_loading(larderd_.get()));
      one.let_go();
      if (!forgets) note(one.end_fetch(*larderd_));
    }
    must(!one.busy(), "an engine does not come to rest");
  }
}

// Engines see there what the disk has. REQUIRES: it has nothing to do.
void SimRun::look_at_below() {
  for (std::uint64_t number = 0; number < kNumbers; ++number) {
    if (!exists(number)) continue;
    const bool there = larderd_->on_disk(number);
    must(there == larderd_->announced_below(number),
         "chunk " + std::to_string(number) + (there ? " is on the disk and not announced" : " is announced and not on the disk"));
  }
}

void SimRun::turn_until_idle() {
  constexpr int kTurns = 20'000, kPatience = 400;
  for (int i = 0; i < kTurns; ++i) {
    larderd_->tick();
    if (larderd_->idle() && !larderd_->disk().state().degraded() && !larderd_->settling()) break;
    machine_.clock.advance_us(i < kPatience ? 5000 : 50'000);
    turn_larderd();
  }
  must(larderd_->idle(), "what larderd has to do does not come to an end");
}

// What is stored and written down is there after the machine's death: by a flush, or by a stop in good order.
void SimRun::round_trip() {
  const std::uint64_t number = any_number();
  note("a family is stored, written down, lost with the memory, and fetched again");
  bool stored = true;
  each_chunk(number, 1, [&](std::uint64_t one) {
    note(engine(0).begin_store(*larderd_, one));
    while (engine(0).busy()) note(engine(0).go_on_storing(larderd_.get()));
    stored = stored && engine(0).present(one);
  });
  if (!stored) return;  // one of it was disowned
  for (std::uint32_t i = 1; i < machine_.config.admit_after; ++i) larderd_->act(protocol::Verb::kPrefetch, number, 1);
  turn_until_idle();
  const auto all_on_disk = [&] {
    bool there = true;
    each_chunk(number, 1, [&](std::uint64_t one) { there = there && larderd_->on_disk(one); });
    return there;
  };
  if (machine_.config.write == config::DiskWrite::kThrough && machine_.one_in(2)) {
    must(all_on_disk(), "a chunk was not written through");
    const std::uint64_t flushes = larderd_->disk().flushes;
    larderd_->flush();
    turn_until_idle();
    must(larderd_->disk().flushes == flushes + 1, "a flush failed on a disk that is well");
  } else {
    end_larderd(false);
  }
  lose_power();
  start_larderd();
  must(larderd_ != nullptr, "larderd does not start after the loss of power");
  engine(0).attach(*larderd_);
  if (machine_.disk_damaged && !all_on_disk()) return;  // the trailer of the region that was open, perhaps
  must(all_on_disk(), "what was promised is gone");
  fetch_and_load(number);
}

void SimRun::fetch_and_load(std::uint64_t number) {
  note(engine(0).begin_fetch(*larderd_, number, 1, 30'000));
  for (int i = 0; i < 1000 && engine(0).families_fetched == 0; ++i) {
    machine_.clock.advance_us(5000);
    turn_larderd();
  }
  const std::uint64_t before = engine(0).loaded;
  std::uint64_t chunks = 0;
  each_chunk(number, 1, [&](std::uint64_t one) {
    ++chunks;
    note(engine(0).begin_load(one));
    for (int i = 0; i < 3; ++i) note(engine(0).go_on_loading(larderd_.get()));
  });
  must(engine(0).loaded == before + chunks, "what was fetched cannot be loaded");
}

}  // namespace larder::sim
