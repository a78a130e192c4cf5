// The end of a run: without faults the machine comes to rest, and a stored family survives a power
// loss.
#include "tests/sim/sim_run.h"

namespace larder::sim {

void SimRun::come_to_rest() {
  note("from here on nothing fails");
  machine_.patient = true;
  machine_.env.faults = {};
  if (machine_.server)
    machine_.server->away = machine_.server->flaky = machine_.server->slow = false;
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
  must(stats.slots_granted == 0 && stats.slots_quarantined == 0,
       "slots are granted or quarantined without a session");
  must(stats.slots_committed == 0 && stats.used_bytes == 0, "chunks are left after a drop of all");
  must(stats.kept_bytes == 0, "larderd keeps slots without a fetch");
  for (const stats::SlotSizeStats& size : stats.slot_sizes)
    must(size.used == 0, "slots are in use without a user");
  must(!larderd_->disk().state().degraded(),
       "the disk is degraded for ever: " + larderd_->disk().state().reason);
  for (std::uint64_t number = 0; number < kNumbers; ++number)
    must(!exists(number) || !larderd_->on_disk(number),
         "a chunk is on the disk after a drop of all");
  must(!machine_.server || machine_.server->chunks.empty(),
       "a chunk is in the backend after a drop of all");
  look_at_below();
  for (const auto& engine : engines_)
    for (std::uint64_t space = 0; space < kSpaces; ++space)
      note(engine->close(larderd_.get(), space, false));
  turn_larderd();
  must(larderd_->memory().namespaces().size() == 0,
       "a namespace that every session has closed is kept without a chunk");
}

// Some engines do not end their fetches.
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

// Engines see the chunks of the disk in the residency filter. REQUIRES: the disk is idle.
void SimRun::look_at_below() {
  for (std::uint64_t number = 0; number < kNumbers; ++number) {
    if (!exists(number)) continue;
    const bool there = larderd_->on_disk(number);
    must(there == larderd_->announced_below(number),
         "chunk " + std::to_string(number) +
             (there ? " is on the disk and not announced" : " is announced and not on the disk"));
  }
}

void SimRun::turn_until_idle() {
  constexpr int kTurns = 20'000, kPatience = 400;
  for (int i = 0; i < kTurns; ++i) {
    larderd_->tick();
    if (larderd_->idle() && !larderd_->disk().state().degraded() && !larderd_->in_recovery_grace())
      break;
    machine_.clock.advance_us(i < kPatience ? 5000 : 50'000);
    turn_larderd();
  }
  must(larderd_->idle(), "the work of larderd does not come to an end");
}

// A family that was stored and written down, by a flush or an orderly stop, is there after the
// machine's death.
void SimRun::round_trip() {
  const std::uint64_t number = any_number();
  note("a family is stored, written down, lost with the memory, and fetched again");
  bool stored = true;
  each_chunk(number, 1, [&](std::uint64_t one) {
    note(engine(0).begin_store(*larderd_, one));
    while (engine(0).busy()) note(engine(0).go_on_storing(larderd_.get()));
    stored = stored && engine(0).present(one);
  });
  if (!stored) return;  // a chunk of the family was disowned
  for (std::uint32_t i = 1; i < machine_.config.admit_after; ++i)
    larderd_->act(protocol::Verb::kPrefetch, number, 1);
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
  // the damage may be in the trailer of the open region
  if (machine_.disk_damaged && !all_on_disk()) return;
  must(all_on_disk(), "a promised chunk is gone");
  fetch_and_load(number);
}

void SimRun::fetch_and_load(std::uint64_t number) {
  note(engine(0).begin_fetch(*larderd_, number, 1, 30'000));
  for (int i = 0; i < 1000 && engine(0).fetch_hits == 0; ++i) {
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
  must(engine(0).loaded == before + chunks, "a fetched chunk cannot be loaded");
}

}  // namespace larder::sim
