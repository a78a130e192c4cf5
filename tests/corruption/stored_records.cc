#include "tests/corruption/stored_records.h"

#include <cstdio>
#include <cstdlib>

#include "sidecar/store/verify.h"

namespace larder::corruption {
namespace {

using tiers::Operation;

void must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "corruption_disk: %s\n", what);
  std::exit(2);
}

// The number of a dropped namespace with chunks in the volume: no damage may bring the chunks back.
constexpr std::uint64_t kDropped = 0;

bool was_dropped(std::uint64_t number) {
  return sim::space_of(number) == sim::space_of(kDropped);
}

}  // namespace

// Puts the chunks that are then dropped, then one of each other chunk. The end is like a kill: the
// last region has no footer.
StoredRecords::StoredRecords(sim::Random& random) : random_(random) {
  options_.size_bytes += (kVolumeRegions - sim::kRegions) * sim::kRegionBytes;
  tier_ = std::make_unique<sim::SimTier>(disk_, random_, options_);
  must(tier_->start().ok(), "the tier could not be started");
  const auto put = [&](std::uint64_t number) {
    sim::Slot slot(sim::slot_bytes_of(number));
    disk::Command command = tier_->command(Operation::kPut, number);
    command.facts = sim::fill_chunk(slot.span(), number, 1000 + number);
    command.slot = slot.span();
    must(tier_->ended(command).status.ok(), "a chunk was refused");
  };
  for (const bool dropped : {true, false}) {
    for (std::uint64_t number = 0; number < sim::kNumbers; ++number)
      if (sim::exists(number) && was_dropped(number) == dropped) put(number);
    if (!dropped) break;
    const disk::Command drop = tier_->command(Operation::kDrop, kDropped);
    tier_->catalog.hide(drop.key.namespace_id);
    must(tier_->ended(drop).status.ok(), "a drop failed");
  }
  for (std::uint64_t number = 0; number < sim::kNumbers; ++number) {
    if (!sim::exists(number)) continue;
    const std::optional<disk::Located> located = tier_->catalog.find(sim::key_of(number));
    if (located) chunks_.push_back({number, located->record, located->region});
  }
  std::vector<disk::Outcome> none;
  for (int i = 0; i < 100; ++i) tier_->step(1000, none);  // for the footers in flight
  tier_->env.kill();
  tier_.reset();
  must(disk::decode_superblock(disk_.bytes().first(disk::kSuperblockBytes), superblock_) ==
           disk::SuperblockFault::kNone,
       "no superblock");
  must(superblock_.drops.size() == 1, "the drop is not in the superblock");
  pristine_ = disk_.as_it_is();
}

disk::Trailer StoredRecords::trailer(std::uint32_t region) const {
  const std::span<const std::byte> block =
      pristine_.bytes().subspan(trailer_at(region), disk::kBlockBytes);
  return disk::decode_trailer(superblock_.volume, region, block).value_or(disk::Trailer{});
}

void StoredRecords::restore() {
  tier_.reset();
  disk_ = pristine_;
}

Status StoredRecords::start() {
  rewritten_.assign(kVolumeRegions, false);
  disk_.on_begin = [this](std::uint64_t offset, std::size_t bytes) {
    if (offset < disk::kHeadBytes || bytes <= disk::kBlockBytes) return;
    if ((offset + bytes - disk::kHeadBytes) % sim::kRegionBytes == 0)
      rewritten_[(offset - disk::kHeadBytes) / sim::kRegionBytes] = true;
  };
  tier_ = std::make_unique<sim::SimTier>(disk_, random_, options_);
  return tier_->start();
}

bool StoredRecords::footer_rewritten(std::uint32_t region) {
  std::vector<disk::Outcome> none;
  for (int i = 0; i < 200 && !rewritten_[region]; ++i) tier_->step(1000, none);
  return rewritten_[region];
}

bool StoredRecords::any_dropped_known() const {
  for (std::uint64_t number = 0; number < sim::kNumbers; ++number)
    if (was_dropped(number) && tier_->catalog.find(sim::key_of(number))) return true;
  return false;
}

StoredRecords::Outcome StoredRecords::load(const Stored& chunk) {
  sim::Slot slot(sim::slot_bytes_of(chunk.number));
  const tiers::Message got = tier_->get(chunk.number, slot.span());
  if (!got.status.ok()) return Outcome::kMiss;
  protocol::EntryView view;
  view.payload_bytes = static_cast<std::uint32_t>(got.facts.payload_bytes);
  view.piece_bytes = static_cast<std::uint32_t>(got.facts.piece_bytes);
  view.root = got.facts.root;
  if (got.facts.slot_bytes() != slot.span().size() ||
      !store::verify_payload(slot.span().data(), view)) {
    disk::Command bad = tier_->command(Operation::kPut, chunk.number);
    bad.kind = disk::Command::Kind::kForget;
    bad.facts = got.facts;
    tier_->engine.accept(bad);
    return Outcome::kMiss;
  }
  const bool right =
      got.facts == chunk.record.facts && sim::right_bytes(slot.span(), chunk.number, got.facts);
  return right ? Outcome::kRight : Outcome::kWrong;
}

}  // namespace larder::corruption
