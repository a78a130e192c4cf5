#include "tests/sim/sim_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sidecar/store/verify.h"

namespace larder::sim {
namespace {

std::string chunk(std::uint64_t number) {
  return " chunk " + std::to_string(number);
}

constexpr std::uint64_t kSurelyKeptNs = (protocol::kMaxHoldAgeMs - 1000ULL) * 1'000'000;

}  // namespace

void SimEngine::attach(SimLarderd& larderd) {
  if (number_ != 0) earlier_.insert(number_);
  auto region = std::make_shared<Region>();
  for (const Load& load : loads_) region->hold(load.place, load.view.slot, load.view.generation);
  for (const Held& held : held_) region->hold(held.place, held.slot, held.generation);
  std::vector<protocol::SlotRef> writing;
  for (const Store& store : stores_)
    writing.push_back({store.grant.slot, 0, store.grant.generation});
  number_ = larderd.attach(region, earlier_, writing);
  region_ = std::move(region);
  index_ = larderd.index();
  attached_ = counted_ = true;
  silent_ = false;
  handles_ = closed_ = {};
  for (std::uint64_t space = 0; space < kSpaces; ++space)
    if (wanted_[space]) open(larderd, space);
}

bool SimEngine::open(SimLarderd& larderd, std::uint64_t space) {
  wanted_[space] = true;
  const std::uint32_t handle = larderd.open_namespace(number_, space);
  if (handle != protocol::kNoNamespace) handles_[space] = handle;
  return handles_[space].has_value();
}

std::string SimEngine::close(SimLarderd* larderd, std::uint64_t space, bool drop) {
  if (!handles_[space]) return "";
  wanted_[space] = false;
  closed_[space] = std::exchange(handles_[space], std::nullopt);
  if (attached_ && larderd != nullptr) larderd->close_namespace(number_, *closed_[space], drop);
  return "closes namespace " + std::to_string(space) + (drop ? " and what only it has there" : "");
}

std::string SimEngine::ask_under_closed(SimLarderd& larderd, std::uint64_t number) {
  const std::uint64_t space = space_of(number);
  if (!closed_[space] || handles_[space]) return "";
  must(larderd.reserve(number_, *closed_[space], number).status != 0,
       "a slot was granted under a handle that is closed");
  return "asks under a handle that it has closed for" + chunk(number);
}

std::optional<std::uint32_t> SimEngine::handle_to_look_under(std::uint64_t space) {
  return handles_[space] || !machine_.one_in(4) ? handles_[space] : closed_[space];
}

void SimEngine::lose_session(bool holds_count) {
  attached_ = false;
  fetches_.clear();
  tier_probes_.clear();
  counted_ = counted_ && holds_count;
  if (holds_count) return;
  for (Load& load : loads_) load.excused = true;
}

void SimEngine::set_silent(SimLarderd* larderd, bool silent) {
  silent_ = silent;
  if (larderd == nullptr || !attached_) return;
  counted_ = !silent;
  larderd->memory().sessions().set_silent(number_, silent);
  for (Load& load : loads_) load.excused = load.excused || silent;
}

std::set<SessionNumber> SimEngine::sessions() const {
  std::set<SessionNumber> all = earlier_;
  if (number_ != 0) all.insert(number_);
  return all;
}

std::uint32_t SimEngine::take_place() {
  const auto place =
      static_cast<std::uint32_t>(std::ranges::find(places_, false) - places_.begin());
  places_[place] = true;
  return place;
}

void SimEngine::drop_place(std::uint32_t place) {
  region_->let_go(place);
  places_[place] = false;
}

std::string SimEngine::begin_store(SimLarderd& larderd, std::uint64_t number) {
  if (!has_open(space_of(number)) && !open(larderd, space_of(number)))
    return "finds no place for the namespace of" + chunk(number);
  const protocol::Grant grant = larderd.reserve(number_, *handles_[space_of(number)], number);
  if (grant.status != 0)
    return "is refused" + chunk(number) + ", status " + std::to_string(grant.status);
  Store store{number, number_, grant, {}, std::make_shared<Slot>(slot_bytes_of(number))};
  store.facts = fill_chunk(store.bytes->span(), number, grant.generation);
  stores_.push_back(std::move(store));
  return "is granted slot " + std::to_string(grant.slot) + " for" + chunk(number) + " at " +
         std::to_string(grant.generation);
}

// Writes one half of a store; after the second half commits, or gives up.
std::string SimEngine::go_on_storing(SimLarderd* larderd) {
  if (stores_.empty()) return "";
  Store& store = stores_.front();
  if (store.halves < 2) {
    const std::size_t half = slot_bytes_of(store.number) / 2;
    const std::size_t from = store.halves++ == 0 ? 0 : half;
    std::memcpy(machine_.arena.data() + store.grant.offset_bytes + from,
                store.bytes->span().data() + from, half);
    return "writes half of" + chunk(store.number);
  }
  // Without a session no message is sent: the next ATTACHED does not list the grant.
  const Store done = store;
  stores_.pop_front();
  if (!attached_ || larderd == nullptr) return "has no listener for" + chunk(done.number);
  if (machine_.one_in(8)) {
    larderd->memory().disown(number_, {done.grant.slot, 0, done.grant.generation});
    return "disowns" + chunk(done.number);
  }
  larderd->commit(number_, done.number,
                  {done.grant.slot, 0, done.grant.generation, done.facts.root});
  ++stored;
  return "commits" + chunk(done.number) + " at " + std::to_string(done.grant.generation);
}

bool SimEngine::present(std::uint64_t number) const {
  const std::optional<std::uint32_t>& handle = handles_[space_of(number)];
  return index_ && handle && !index_->reader.dead() &&
         index_->reader.find(key_under(*handle, number)).has_value();
}

std::string SimEngine::begin_load(std::uint64_t number) {
  if (!index_ || index_->reader.dead() || loads_.size() + held_.size() > 12)
    return "cannot look up" + chunk(number);
  const std::optional<std::uint32_t> handle = handle_to_look_under(space_of(number));
  if (!handle) return "has not opened the namespace of" + chunk(number);
  const std::optional<protocol::EntryView> view = index_->reader.find(key_under(*handle, number));
  if (!view || view->record != protocol::record_checksum(*view)) {
    ++misses;
    return "misses" + chunk(number);
  }
  const std::uint64_t content = model_.found(number, view->generation);
  const std::uint32_t place = take_place();
  region_->hold(place, view->slot, view->generation);
  if (!index_->reader.still_committed(view->slot, view->generation)) {
    drop_place(place);
    return "could not hold" + chunk(number);
  }
  Load load{number, *view, content, place, std::make_shared<Slot>(slot_bytes_of(number))};
  load.excused = !counted_;
  loads_.push_back(std::move(load));
  return "holds slot " + std::to_string(view->slot) + " of" + chunk(number) + " at " +
         std::to_string(view->generation);
}

std::string SimEngine::go_on_loading(SimLarderd* larderd) {
  if (loads_.empty()) return "";
  Load& load = loads_.front();
  if (load.halves < 2) {
    const std::size_t half = slot_bytes_of(load.number) / 2;
    const std::size_t from = load.halves++ == 0 ? 0 : half;
    std::memcpy(load.copy->span().data() + from,
                machine_.arena.data() + load.view.offset_bytes + from, half);
    return "copies half of" + chunk(load.number);
  }
  std::string what = check(load, larderd);
  held_.push_back({load.view.slot, load.place, load.view.generation});
  loads_.pop_front();
  return what;
}

std::string SimEngine::check(Load& load, SimLarderd* larderd) {
  const protocol::EntryView& view = load.view;
  const Shape& shape = shape_of(load.number);
  must(view.payload_bytes == shape.payload_bytes && view.piece_bytes == shape.piece_bytes,
       "a chunk of another size was found");
  if (store::verify_payload(load.copy->span().data(), view)) {
    tiers::ChunkFacts facts{load.content, view.payload_bytes, view.piece_bytes, view.root};
    must(right_bytes(load.copy->span(), load.number, facts), "WRONG BYTES:" + chunk(load.number));
    ++loaded;
    if (attached_ && larderd != nullptr) larderd->memory().touch(view.slot, view.generation);
    return "has loaded" + chunk(load.number);
  }
  const bool from_disk = load.content != view.generation;
  const bool damaged = ((machine_.disk_damaged || !machine_.arena_damage.empty()) && from_disk) ||
                       machine_.index_damaged ||
                       machine_.damaged(view.offset_bytes, slot_bytes_of(load.number));
  must(load.excused || damaged, "the bytes of a held chunk changed:" + chunk(load.number));
  if (attached_ && larderd != nullptr && !load.excused)
    larderd->bad(load.number, {view.slot, 0, view.generation});
  return "finds" + chunk(load.number) + " bad";
}

std::string SimEngine::begin_fetch(SimLarderd& larderd, std::uint64_t number,
                                   std::uint64_t families, std::uint32_t deadline_ms) {
  if (!has_open(space_of(number)) && !open(larderd, space_of(number)))
    return "finds no place for the namespace of" + chunk(number);
  const std::uint32_t handle = *handles_[space_of(number)];
  Fetch fetch{
      ++requests_, handle, number, families, machine_.clock.now_ns() + deadline_ms * 1'000'000ULL,
      {}};
  each_chunk(number, families,
             [&](std::uint64_t one) { fetch.removals[one] = larderd.removals(one); });
  fetches_.push_back(fetch);
  larderd.fetch(number_, fetch.request, handle, number, families, deadline_ms);
  return "fetches " + std::to_string(families) + " families from" + chunk(number) + " on";
}

std::string SimEngine::begin_probe(SimLarderd& larderd, std::uint64_t number,
                                   std::uint64_t families, std::uint32_t deadline_ms) {
  if (!has_open(space_of(number)) && !open(larderd, space_of(number)))
    return "finds no place for the namespace of" + chunk(number);
  tier_probes_.push_back(
      {++requests_, families, machine_.clock.now_ns() + deadline_ms * 1'000'000ULL});
  larderd.probe(number_, requests_, *handles_[space_of(number)], number, families, deadline_ms);
  return "looks for " + std::to_string(families) + " families from" + chunk(number) + " on";
}

void SimEngine::probed(const SimLarderd::ProbeAnswer& answer) {
  if (!attached_ || answer.session != number_) return;
  const auto probe = std::ranges::find(tier_probes_, answer.request, &Probe::request);
  must(probe != tier_probes_.end() && answer.probed.families <= probe->families,
       "a look was answered twice, or with more than was asked");
  families_found += answer.probed.families;
  tier_probes_.erase(probe);
}

std::string SimEngine::end_fetch(SimLarderd& larderd) {
  if (fetches_.empty()) return "";
  larderd.end_fetch(number_, fetches_.front().request);
  fetches_.pop_front();
  return "ends a fetch";
}

void SimEngine::fetched(const SimLarderd::Answer& answer) {
  const auto fetch = std::ranges::find_if(
      fetches_, [&](const Fetch& one) { return one.request == answer.request; });
  // the fetch was ended at the same moment
  if (!attached_ || answer.session != number_ || fetch == fetches_.end()) return;
  must(!fetch->answered_ns && answer.fetched.families <= fetch->families,
       "a fetch was answered twice, or with more than was asked");
  fetch->answered_ns = machine_.clock.now_ns();
  fetch->families = answer.fetched.families;
  fetch_hits += fetch->families;
  if (fetch->families == 0) fetches_.erase(fetch);  // larderd keeps no chunk
}

void SimEngine::look_at_fetches(SimLarderd& larderd) const {
  const std::uint64_t now_ns = machine_.clock.now_ns();
  for (const Probe& probe : tier_probes_)
    must(probe.deadline_ns > now_ns, "a look was not answered by its deadline");
  for (const Fetch& fetch : fetches_) {
    must(fetch.answered_ns || fetch.deadline_ns > now_ns,
         "a fetch was not answered by its deadline");
    if (!fetch.answered_ns || *fetch.answered_ns + kSurelyKeptNs < now_ns) continue;
    each_chunk(fetch.number, fetch.families, [&](std::uint64_t one) {
      if (larderd.removals(one) != fetch.removals.at(one)) return;
      must(larderd.index()->reader.find(key_under(fetch.handle, one)).has_value(),
           "a fetched chunk is gone before the end of its fetch:" + chunk(one));
    });
  }
}

std::string SimEngine::let_go() {
  if (held_.empty()) return "";
  drop_place(held_.front().place);
  held_.pop_front();
  return "lets go";
}

}  // namespace larder::sim
