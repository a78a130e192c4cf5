#include "tests/sim/sim_larderd.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/session/chunk_verbs.h"
#include "sidecar/store/verify.h"

namespace larder::sim {

using tiers::Message;
using tiers::Operation;

namespace {

constexpr std::uint64_t kRecoveryGraceNs = 2'000'000'000;
constexpr std::uint64_t kAsleepMs = 1000;
constexpr std::uint64_t kStopNs = 20'000'000'000;

store::IndexShape shape_from(std::uint64_t first_generation) {
  store::IndexShape shape{};
  shape.entry_count = 2 * Machine::kArenaBytes / 8192;
  shape.bucket_count = store::IndexShape::buckets_for(shape.entry_count);
  shape.arena_bytes = Machine::kArenaBytes;
  shape.first_generation = first_generation;
  shape.epoch = first_generation;
  shape.tier = 1;  // the same tier in every life
  return shape;
}

}  // namespace

SimLarderd::~SimLarderd() {
  if (store_)
    machine_.newest_generation = std::max(machine_.newest_generation, store_->last_generation());
  model_.larderd_ended();
  machine_.env.kill();
}

Status SimLarderd::open_disk() {
  Result<std::shared_ptr<tiering::ResidencyFilter>> below =
      tiering::ResidencyFilter::create(machine_.config.size_bytes);
  if (!below.ok()) return below.status();
  below_ = std::move(*below);
  Result<std::unique_ptr<WatchedTier>> tier = WatchedTier::open(machine_, model_, below_);
  if (!tier.ok()) return tier.status();
  tier_ = tier->get();
  link_ =
      std::make_unique<tiering::TierLink>(tiering::TierKind::kDisk, std::move(*tier), "/simulated",
                                          [this](int timeout_ms) { tier_->wait(timeout_ms); });
  return {};
}

Status SimLarderd::start(const std::set<SessionNumber>& alive) {
  if (Status status = open_disk(); !status.ok()) return status;
  earlier_ = machine_.indexes.empty() ? nullptr : machine_.indexes.back();
  for (const auto& older : machine_.indexes)
    if (older != earlier_) older->supersede();
  Result<store::PreviousIndex> earlier = Status(Code::kNotFound, "");
  if (earlier_)
    earlier = store::PreviousIndex::open(earlier_->memory.data(), earlier_->memory.size());
  must(!earlier_ || earlier.ok(),
       "the index that was left cannot be opened: " + earlier.status().text());

  const store::IndexShape shape = shape_from(
      std::max(machine_.newest_generation, earlier.ok() ? earlier->last_generation() : 0) + 1);
  index_ = std::make_shared<Index>(shape);
  store_ =
      std::make_unique<store::Store>(shape, index_->memory.data(), machine_.arena.data(), stats_);
  index_->reader = *protocol::IndexReader::open(index_->memory.data(), index_->memory.size());
  store_->set_touched_bytes(shape.arena_bytes);
  const std::span<std::byte> arena(machine_.arena.data(), Machine::kArenaBytes);
  tier_writer_ = std::make_unique<tiering::TierWriter>(
      *link_, *store_, machine_.clock, tiering::rules_for(machine_.config), arena.size());
  source_ = std::make_unique<tiering::ReadableTier>(*link_, *below_, machine_.clock);
  source_->set_hidden(
      [this](const protocol::NamespaceId& id) { return tier_writer_->waits_for_drop(id); });
  std::vector<tiering::ReadableTier*> sources{source_.get()};
  if (machine_.server) {
    open_backend();
    sources.push_back(backend_source_.get());
  }
  promoter_ = std::make_unique<tiering::Promoter>(sources, *store_, stats_, machine_.clock, arena);
  for (tiering::TierLink* link : {link_.get(), backend_link_.get()}) {
    if (link == nullptr) continue;
    link->answer_to(Operation::kGet, [this](const Message& message) {
      promoter_->on_get(message);
      came_up(message);
    });
  }
  if (machine_.server) {
    const std::array<tiering::SharedTier, 1> shared{{{backend_link_.get(), backend_source_.get()}}};
    tier_probes_ = std::make_unique<tiering::TierProbes>(shared, sources, *promoter_, *store_,
                                                         stats_, machine_.clock);
    backend_link_->answer_to(Operation::kProbe,
                             [this](const Message& message) { tier_probes_->on_probe(message); });
  }

  namespaces_ =
      std::make_unique<SimNamespaces>(machine_, *index_, *store_, [this](std::uint64_t space) {
        for (std::uint64_t number = 0; number < kNumbers; ++number)
          removals_[number] += space_of(number) == space;
      });
  if (earlier.ok()) {
    const std::vector<SessionNumber> sessions(alive.begin(), alive.end());
    namespaces_->restored(earlier_->journal,
                          store_->restore(*earlier, earlier_->journal, sessions));
    awaited_ = alive;
    grace_ends_ns_ = machine_.clock.now_ns() + kRecoveryGraceNs;
  }
  if (machine_.crowded) namespaces_->crowd();
  machine_.indexes.push_back(index_);
  ticked_ms_ = machine_.clock.now_ms();
  tick();
  return {};
}

// REQUIRES: the machine has a server.
void SimLarderd::open_backend() {
  backend_region_ = *tiering::ResidencyFilter::create(0);
  auto tier = std::make_unique<SimBackend>(machine_, model_, backend_region_);
  backend_ = tier.get();
  backend_link_ = std::make_unique<tiering::TierLink>(
      tiering::TierKind::kBackend, std::move(tier), "/simulated server",
      [this](int timeout_ms) { backend_->wait(timeout_ms); });
  backend_write_down_ = std::make_unique<tiering::TierWriter>(
      *backend_link_, *store_, machine_.clock, tiering::rules_for(machine_.backend),
      Machine::kArenaBytes);
  backend_source_ =
      std::make_unique<tiering::ReadableTier>(*backend_link_, *backend_region_, machine_.clock);
  backend_source_->set_hidden(
      [this](const protocol::NamespaceId& id) { return backend_write_down_->waits_for_drop(id); });
}

SessionNumber SimLarderd::attach(std::shared_ptr<Region> region, std::set<SessionNumber>& earlier,
                                 std::span<const protocol::SlotRef> still_written) {
  const SessionNumber number = machine_.next_session++;
  store_->sessions().add(number, **region,
                         {Machine::kArenaBytes / protocol::kSessionGrantedShare, UINT64_MAX});
  regions_[number] = std::move(region);
  for (auto next = earlier.begin(); next != earlier.end();) {
    const SessionNumber one = *next++;
    if (regions_.contains(one)) end_session(one);
    awaited_.erase(one);
    store_->sessions().succeed(number, one, still_written, true);
    if (store_->sessions().grants_of(one) != 0) continue;
    store_->sessions().release_quarantine(one);
    earlier.erase(one);
  }
  return number;
}

// The region may be gone at once.
void SimLarderd::end_session(SessionNumber session) {
  promoter_->end_session(session);
  if (tier_probes_) tier_probes_->end_session(session);
  namespaces_->leave(session);
  store_->sessions().end(session);
  regions_.erase(session);
}

void SimLarderd::process_ended(const std::set<SessionNumber>& sessions) {
  for (const SessionNumber session : sessions) {
    if (regions_.contains(session)) end_session(session);
    awaited_.erase(session);
    store_->sessions().release_quarantine(session);
  }
}

std::uint32_t SimLarderd::open_namespace(SessionNumber session, std::uint64_t space) {
  return namespaces_->open(session, space);
}

void SimLarderd::close_namespace(SessionNumber session, std::uint32_t handle, bool drop) {
  namespaces_->close(session, handle, drop);
}

protocol::Grant SimLarderd::reserve(SessionNumber session, std::uint32_t handle,
                                    std::uint64_t number) {
  const protocol::Key key = key_under(handle, number);
  protocol::Grant grant{};
  grant.status = static_cast<std::uint32_t>(Code::kNotFound);
  if (!namespaces_->has_open(session, handle)) return grant;
  // Prompts of four chunks, stored in any order.
  const protocol::BlockHash parent =
      number % 4 == 0 ? protocol::BlockHash{} : key_under(handle, number - 1).hash;
  store_->reserve(session, key, std::span(&key.hash, 1), std::span(&grant, 1),
                  std::span(&parent, 1));
  must(grant.status != 0 || grant.offset_bytes + slot_bytes_of(number) <= Machine::kArenaBytes,
       "a slot outside the arena");
  return grant;
}

// From here on the chunk counts as stored, if the grant is the session's.
void SimLarderd::commit(SessionNumber session, std::uint64_t number,
                        const protocol::CommitRecord& record) {
  model_.committed(number, record.generation);
  store_->commit(session, record);
}

bool SimLarderd::drop(std::uint64_t space) {
  const std::uint64_t newest = store_->last_generation();
  store::Drop drop;
  if (space < kSpaces && !(drop.handle = namespaces_->handle_of(space))) return false;
  for (std::uint64_t one = 0; one < kSpaces; ++one)
    if (one == space || space == kSpaces) model_.dropped(one, newest);
  if (machine_.server)
    for (const auto& [number, chunk] : machine_.server->chunks)
      if (space == kSpaces || space_of(number) == space)
        model_.dropped_of_others(number, chunk.facts.generation);
  while (!drop.done) store_->drop(drop);
  for (std::uint64_t number = 0; number < kNumbers; ++number)
    removals_[number] += space == kSpaces || space_of(number) == space;
  return true;
}

std::vector<protocol::BlockHash> SimLarderd::hashes(std::uint64_t number,
                                                    std::uint64_t families) const {
  std::vector<protocol::BlockHash> all;
  for (std::uint64_t i = 0; i < families; ++i)
    all.push_back(hash_of(first_of(family_of(number) + i, space_of(number))));
  return all;
}

void SimLarderd::fetch(SessionNumber session, std::uint32_t request, std::uint32_t handle,
                       std::uint64_t number, std::uint64_t families, std::uint32_t deadline_ms) {
  const std::vector<protocol::BlockHash> wanted = hashes(number, families);
  const protocol::Fetch asked{handle, deadline_ms, static_cast<std::uint32_t>(wanted.size()), 0};
  must(promoter_->fetch(session, request, asked, wanted).ok(), "a fetch is refused");
}

void SimLarderd::probe(SessionNumber session, std::uint32_t request, std::uint32_t handle,
                       std::uint64_t number, std::uint64_t families, std::uint32_t deadline_ms) {
  const std::vector<protocol::BlockHash> wanted = hashes(number, families);
  const protocol::Probe asked{handle, deadline_ms, static_cast<std::uint32_t>(wanted.size()), 0};
  must(tier_probes_->probe(session, request, asked, wanted).ok(), "a look is refused");
}

void SimLarderd::act(protocol::Verb verb, std::uint64_t number, std::uint64_t families) {
  const std::optional<std::uint32_t> handle = namespaces_->handle_of(space_of(number));
  if (!handle) return;
  session::ChunkVerb work(verb, *handle, hashes(number, families));
  while (!work.go_on(*store_, stats_, promoter_.get())) {
  }
  if (verb != protocol::Verb::kEvict) return;
  each_chunk(number, families, [this](std::uint64_t one) { ++removals_[one]; });
}

// The tier's copy was written from the same bytes, or brought them, unless the damage was in the
// engine's view alone.
void SimLarderd::bad(std::uint64_t number, const protocol::SlotRef& slot) {
  const std::optional<protocol::EntryView> view = index_->reader.read(slot.slot);
  const bool there = view && view->generation == slot.generation && !tier_->state().degraded();
  if (there && !store::verify_payload(machine_.arena.data() + view->offset_bytes, *view)) {
    condemned_.insert({number, slot.generation});
    if (const std::optional<tiers::ChunkFacts> below = tier_->probe(key_of(number)))
      condemned_.insert({number, below->generation});
  }
  ++removals_[number];
  store_->report_bad(slot);
}

void SimLarderd::turn() {
  while (store_->verify_next()) {
  }
  promoter_->go_on();
  if (tier_probes_) tier_probes_->go_on();
  tier_->turn();
  link_->deliver();
  tier_writer_->pump();
  if (backend_ != nullptr) {
    backend_->turn();
    backend_link_->deliver();
    backend_write_down_->pump();
    tier_probes_->miss_deadlines();
  }
  promoter_->miss_deadlines();
  for (const Answer& answer : promoter_->take_answers()) answers_.push_back(answer);
  look_for_condemned();
  namespaces_->check();
}

// A promoted chunk has the content of the tier's chunk, under a new generation.
void SimLarderd::came_up(const Message& message) {
  std::optional<Up> up = backend_ == nullptr ? std::nullopt : backend_->take_up(message.ticket);
  const bool shared = up.has_value();
  if (!shared) up = tier_->take_up(message.ticket);
  if (!up) return;
  const std::optional<std::uint32_t> handle = namespaces_->handle_of(space_of(up->number));
  if (!handle) return;
  const std::optional<protocol::EntryView> view =
      index_->reader.find(key_under(*handle, up->number));
  if (!view || view->offset_bytes != up->offset || model_.knows(up->number, view->generation))
    return;
  if (shared)
    model_.came_up_from_backend(up->number, view->generation, up->generation);
  else
    model_.came_up(up->number, view->generation, up->generation);
}

void SimLarderd::look_for_condemned() {
  const std::uint64_t times = tier_->counters().times_degraded;
  if (times != std::exchange(times_degraded_, times) || tier_->state().degraded())
    condemned_.clear();
  for (const auto& [number, generation] : condemned_) {
    if (tier_->on_its_way_down(number)) continue;
    const std::optional<tiers::ChunkFacts> below = tier_->probe(key_of(number));
    must(!below || below->generation != generation,
         "chunk " + std::to_string(number) + " was found bad and is still on the disk");
  }
}

void SimLarderd::tick() {
  const std::uint64_t now_ms = machine_.clock.now_ms();
  const bool slept = now_ms - ticked_ms_ > kAsleepMs;
  ticked_ms_ = now_ms;
  if (store_->in_recovery_grace() &&
      (awaited_.empty() || machine_.clock.now_ns() > grace_ends_ns_)) {
    awaited_.clear();
    store_->end_recovery_grace();
  }
  store_->sessions().watch_holds(now_ms, slept);
  store_->sweep();
  tier_writer_->tick();
  if (backend_ != nullptr) backend_write_down_->tick();
  promoter_->tick(slept);
  if (tier_probes_) tier_probes_->tick();
}

bool SimLarderd::close() {
  tier_writer_->finish(machine_.clock.now_ns() + kStopNs);
  if (backend_ != nullptr) backend_write_down_->finish(machine_.clock.now_ns() + kStopNs);
  return tier_->closed_well();
}

void SimLarderd::fill(stats::Stats& stats) const {
  stats = stats_;
  store_->fill(stats);
  tier_writer_->fill(stats.disk);
}

bool SimLarderd::idle() const {
  stats::TierStats disk, backend;
  tier_writer_->fill(disk);
  for (std::uint64_t space = 0; space < kSpaces; ++space) {
    const protocol::NamespaceId id = key_of(first_of(0, space)).namespace_id;
    if (tier_writer_->waits_for_drop(id) ||
        (backend_ != nullptr && backend_write_down_->waits_for_drop(id)))
      return false;
  }
  if (backend_ != nullptr) backend_write_down_->fill(backend);
  if (backend.write_queue != 0 || (backend_ != nullptr && !backend_->idle())) return false;
  return tier_->idle() && disk.write_queue == 0 && stats_.fetches_kept == 0;
}

bool SimLarderd::announced_below(std::uint64_t number) const {
  const protocol::ResidencyReader reader =
      *protocol::ResidencyReader::open(below_->data(), below_->bytes());
  const tiers::ChunkKey key = key_of(number);
  return reader.has(reader.place(key.namespace_id, key.hash, key.shard, key.group));
}

}  // namespace larder::sim
