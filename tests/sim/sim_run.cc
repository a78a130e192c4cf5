#include "tests/sim/sim_run.h"

#include <algorithm>
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
  // Engines that larderd no longer awaits lose their holds.
  for (const auto& engine : engines_)
    if (larderd_ && !larderd_->in_recovery_grace() && !engine->attached())
      engine->lose_session(false);
}

void SimRun::turn_larderd() {
  if (!larderd_) return;
  larderd_->turn();
  const std::vector<SimLarderd::Answer> answers = larderd_->take_answers();
  const std::vector<SimLarderd::ProbeAnswer> found = larderd_->take_probe_answers();
  for (const auto& engine : engines_) {
    for (const SimLarderd::Answer& answer : answers) engine->fetched(answer);
    for (const SimLarderd::ProbeAnswer& answer : found) engine->probed(answer);
    engine->look_at_fetches(*larderd_);
  }
}

// Ticks like larderd's timer.
void SimRun::pass_time(std::uint64_t slices) {
  for (std::uint64_t i = 0; i < slices; ++i) {
    machine_.clock.advance_us(100'000);
    turn_larderd();
    if (larderd_) larderd_->tick();
  }
}

// A random chunk; a sixth of the chunks is popular.
std::uint64_t SimRun::any_number() {
  const std::uint64_t number = machine_.below(machine_.one_in(2) ? kNumbers : kNumbers / 6);
  return exists(number) ? number : number - 1;
}

// A random chunk for which `holds` is true, if a few attempts find one.
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
    if (asks)
      done = one.begin_store(
          *larderd_, number_where([&](std::uint64_t number) { return !one.present(number); }));
  } else if (what < 15) {
    done = one.go_on_storing(larderd_.get());
  } else if (what < 19) {
    done = one.begin_load(number_where([&](std::uint64_t number) { return one.present(number); }));
  } else if (what < 26) {
    done = one.go_on_loading(larderd_.get());
  } else if (what < 28) {
    done = one.let_go();
  } else if (asks && what < 31) {
    const std::uint64_t number = number_where(
        [&](std::uint64_t from) { return larderd_->below(from) && !one.present(from); });
    const std::uint64_t families =
        1 + machine_.below(std::min<std::uint64_t>(4, kFamilies - family_of(number)));
    done = one.begin_fetch(*larderd_, number, families,
                           static_cast<std::uint32_t>(5 + machine_.below(400)));
    if (machine_.one_in(25)) {
      note(name + done);
      turn_larderd();
      done = "drops its fetched chunks";
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
  return (one.open(*larderd_, space) ? "opens namespace " : "finds no place for namespace ") +
         std::to_string(space);
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
                                   : "namespace " + std::to_string(space) +
                                         (known ? " is dropped" : " is not known"));
    }
    case 2: return ask_for(any_number());
    case 3:
    case 4:
    case 5: return larderd_->tick();
    default: return;
  }
}

void SimRun::ask_for(std::uint64_t number) {
  constexpr protocol::Verb kVerbs[] = {protocol::Verb::kPrefetch, protocol::Verb::kPrefetch,
                                       protocol::Verb::kPrefetch, protocol::Verb::kPin,
                                       protocol::Verb::kUnpin,    protocol::Verb::kEvict};
  const protocol::Verb verb = kVerbs[machine_.below(std::size(kVerbs))];
  const std::uint64_t families =
      1 + machine_.below(std::min<std::uint64_t>(3, kFamilies - family_of(number)));
  note("somebody asks to " + std::string(protocol::verb_name(verb)) + " " +
       std::to_string(families) + " families from chunk " + std::to_string(number) + " on");
  larderd_->act(verb, number, families);
}

// Steps of other larderd at the server, and probes of engines.
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
      if (server.chunks.erase(number) != 0)
        note("the backend evicts chunk " + std::to_string(number));
      return;
    default: {
      const std::size_t which = machine_.below(kEngines);
      if (!larderd_ || !engine(which).attached() || engine(which).silent()) return;
      const std::uint64_t families =
          1 + machine_.below(std::min<std::uint64_t>(4, kFamilies - family_of(number)));
      const auto deadline_ms = static_cast<std::uint32_t>(5 + machine_.below(400));
      note("engine " + std::to_string(which) + " " +
           engine(which).begin_probe(*larderd_, number, families, deadline_ms));
    }
  }
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
  note(killed ? "larderd is killed"
       : good ? "larderd stops"
              : "larderd stops, and the disk does not answer");
  tally_.went_down += larderd_->disk().went_down;
  tally_.came_up += larderd_->disk().came_up;
  tally_.given_back += larderd_->namespaces().given_back;
  tally_.places_reused += larderd_->namespaces().reused;
  tally_.namespaces_evicted += larderd_->namespaces().evicted;
  if (const SimBackend* backend = larderd_->backend()) {
    tally_.to_backend += backend->went_down;
    tally_.from_backend += backend->came_up;
    tally_.probes += backend->probed;
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
  tally_.fetch_hits += engine.fetch_hits;
  tally_.families_found += engine.families_found;
}

}  // namespace larder::sim
