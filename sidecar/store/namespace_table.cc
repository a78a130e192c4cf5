#include "sidecar/store/namespace_table.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "shim/protocol/checksum.h"
#include "sidecar/store/fingerprint_diff.h"

namespace larder::store {
namespace {

constexpr std::size_t kMostCompared = 16;  // texts of up to 48 KiB: bounds the time of the loop

// REQUIRES: shards and groups within their limits.
Status validate_parts(const NamespaceSpec& spec) {
  const std::size_t bits = spec.shard_count * spec.groups.size();
  if (!spec.parts.empty() &&
      spec.parts.size() != protocol::part_words(spec.shard_count, spec.groups.size()))
    return {Code::kOutOfRange, "part_words " + std::to_string(spec.parts.size()) +
                                   " is not 0, nor a bit for each of " + std::to_string(bits) +
                                   " shards and groups"};
  if (!spec.parts.empty() && bits % 64 != 0 && spec.parts.back() >> bits % 64 != 0)
    return {Code::kInvalidArgument, "part_words: a bit behind the last shard and group is set"};
  if (spec.part_count() == 0)
    return {Code::kInvalidArgument, "part_words: no part of a chunk is left"};
  for (std::uint32_t group = 0; group < spec.groups.size(); ++group) {
    const bool kept = spec.layout_shard == 0 || spec.has(spec.layout_shard - 1, group);
    if ((spec.groups[group].pieces_per_chunk != 0) != kept)
      return {Code::kOutOfRange, "pieces_per_chunk of group " + std::to_string(group) + " is " +
                                     std::to_string(spec.groups[group].pieces_per_chunk) +
                                     ", and the part is " + (kept ? "kept" : "left out")};
  }
  return {};
}

Status validate(const NamespaceSpec& spec, std::uint64_t arena_bytes) {
  // The id comes from a client. An id that is no hash of the text would let one engine open the
  // chunks of another model.
  if (protocol::namespace_id(*spec.fingerprint) != spec.id)
    return {Code::kInvalidArgument,
            "namespace id " + spec.id.to_hex() + " is not the hash of its fingerprint text"};
  if (spec.groups.empty() || spec.groups.size() > protocol::kMaxGroups)
    return {Code::kOutOfRange, "group_count " + std::to_string(spec.groups.size()) + " is not 1.." +
                                   std::to_string(protocol::kMaxGroups)};
  if (spec.shard_count == 0 || spec.shard_count > protocol::kMaxShards)
    return {Code::kOutOfRange, "shard_count " + std::to_string(spec.shard_count) + " is not 1.." +
                                   std::to_string(protocol::kMaxShards)};
  if (spec.layout_shard > spec.shard_count)
    return {Code::kOutOfRange, "layout_shard " + std::to_string(spec.layout_shard) + " is not 0.." +
                                   std::to_string(spec.shard_count)};
  if (Status status = validate_parts(spec); !status.ok()) return status;
  for (const protocol::GroupLayout& group : spec.groups) {
    if (group.piece_bytes == 0 || group.piece_bytes > protocol::kMaxPieceBytes)
      return {Code::kOutOfRange, "piece_bytes " + std::to_string(group.piece_bytes) +
                                     " is not 1.." + std::to_string(protocol::kMaxPieceBytes)};
    // No overflow: piece_bytes is bounded above, and pieces_per_chunk has 32 bits.
    const std::uint64_t payload = group.piece_bytes * group.pieces_per_chunk;
    if (payload > protocol::kMaxPayloadBytes)
      return {Code::kOutOfRange,
              "a chunk of " + std::to_string(payload) + " bytes is over the limit of " +
                  std::to_string(protocol::kMaxPayloadBytes) + ": use a smaller chunk_tokens"};
    const std::uint64_t slot = protocol::slot_bytes(payload, group.piece_bytes);
    if (slot > arena_bytes)
      return {Code::kOutOfRange, "a chunk needs " + std::to_string(slot) +
                                     " bytes and the arena has " + std::to_string(arena_bytes) +
                                     ": raise memory.size or use a smaller chunk_tokens"};
  }
  return {};
}

bool same_groups(const std::vector<protocol::GroupLayout>& a,
                 const std::vector<protocol::GroupLayout>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.piece_bytes == other.piece_bytes && one.pieces_per_chunk == other.pieces_per_chunk;
  });
}

std::size_t layout_number(const NamespaceSpec& spec) {
  return spec.layout_shard == 0 ? 0 : spec.layout_shard - 1;
}

// Sets the layout of the opener, for every shard or for one.
void set_layout(Namespace& space, const NamespaceSpec& spec) {
  space.layouts[layout_number(spec)] = spec.groups;
  space.slot_bytes = space.family_bytes = 0;
  for (std::uint32_t shard = 0; shard < space.spec.shard_count; ++shard) {
    for (std::uint32_t number = 0; number < space.spec.groups.size(); ++number) {
      const protocol::GroupLayout* group = space.layout(shard, number);
      if (group == nullptr) continue;
      const std::uint64_t slot =
          protocol::slot_bytes(group->piece_bytes * group->pieces_per_chunk, group->piece_bytes);
      space.slot_bytes = std::max(space.slot_bytes, slot);
      space.family_bytes += slot;
    }
  }
}

std::unique_ptr<Namespace> make_namespace(const NamespaceSpec& spec) {
  auto made = std::make_unique<Namespace>();
  made->spec = spec;
  made->layouts.resize(spec.layout_shard == 0 ? 1 : spec.shard_count);
  set_layout(*made, spec);
  return made;
}

// Whether an opener with this spec may share the namespace: the shape is equal, and the layout of
// the opener's shard is equal or not known yet.
bool fits(const Namespace& known, const NamespaceSpec& spec) {
  if (known.spec.id != spec.id || known.spec.shard_count != spec.shard_count ||
      known.spec.chunk_tokens != spec.chunk_tokens ||
      // The same text with another shape: the writer of the fingerprint left a fact out. The two
      // engines get separate namespaces, and never read each other's bytes.
      known.spec.groups.size() != spec.groups.size() ||
      (known.spec.layout_shard == 0) != (spec.layout_shard == 0) || known.spec.parts != spec.parts)
    return false;
  const std::vector<protocol::GroupLayout>& layout = known.layouts[layout_number(spec)];
  return layout.empty() || same_groups(layout, spec.groups);
}

}  // namespace

std::uint32_t NamespaceSpec::part_count() const {
  if (parts.empty()) return shard_count * static_cast<std::uint32_t>(groups.size());
  return std::accumulate(parts.begin(), parts.end(), std::uint32_t{0},
                         [](std::uint32_t sum, std::uint64_t word) {
                           return sum + static_cast<std::uint32_t>(std::popcount(word));
                         });
}

std::optional<std::uint32_t> NamespaceTable::find(const NamespaceSpec& spec) const {
  // Several namespaces may fit, because shards announce their layouts one by one. The namespace
  // with the most sessions wins, then the newest: the processes of one engine attach together.
  const auto rank = [this](std::uint32_t place) {
    return std::pair(places_[place].space->sessions, places_[place].space->used);
  };
  std::optional<std::uint32_t> best;
  for (std::uint32_t place = 0; place < places_.size(); ++place)
    if (places_[place].space && fits(*places_[place].space, spec) &&
        (!best || rank(place) > rank(*best)))
      best = place;
  return best;
}

Result<std::uint32_t> NamespaceTable::open(const NamespaceSpec& spec, std::uint64_t arena_bytes,
                                           std::string* difference) {
  if (Status status = validate(spec, arena_bytes); !status.ok()) return status;
  if (const std::optional<std::uint32_t> known = find(spec)) {
    Namespace& space = *places_[*known].space;
    // The first opener of a shard brings its layout. All later ones must agree (fits()).
    if (space.layouts[layout_number(spec)].empty()) set_layout(space, spec);
    touch(handle_at(*known));
    return handle_at(*known);
  }
  // Before enter(): the new namespace must not be compared with itself.
  std::string text = describe_difference(spec);
  Result<std::uint32_t> entered = enter(spec);
  if (entered.ok()) *difference = std::move(text);
  return entered;
}

Result<std::uint32_t> NamespaceTable::make(const NamespaceSpec& spec, std::uint64_t arena_bytes) {
  if (Status status = validate(spec, arena_bytes); !status.ok()) return status;
  return enter(spec);
}

Status NamespaceTable::add_layout(std::uint32_t handle, const NamespaceSpec& spec,
                                  std::uint64_t arena_bytes) {
  if (Status status = validate(spec, arena_bytes); !status.ok()) return status;
  if (!fits(at(handle), spec))
    return {Code::kInvalidArgument, "namespace " + spec.id.to_hex() + " has another layout"};
  set_layout(at(handle), spec);
  return {};
}

// Opens a new namespace in a free place.
Result<std::uint32_t> NamespaceTable::enter(const NamespaceSpec& spec) {
  // Places are reused, because each stands in a table of fixed size in the index.
  if (free_.empty() && places_.size() < protocol::kMaxNamespaces) {
    free_.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.push_back({first_generation_, nullptr});
  }
  if (free_.empty())
    return Status(Code::kResourceExhausted,
                  open_ == 0 ? "every place for a namespace has been used up: restart larderd"
                             : "all " + std::to_string(protocol::kMaxNamespaces) +
                                   " places for namespaces are in use by sessions: end an engine "
                                   "of this pool, or unload adapters of one, and attach again");
  const std::uint32_t place = free_.back();
  free_.pop_back();
  places_[place].space = make_namespace(spec);
  ++open_;
  touch(handle_at(place));
  return handle_at(place);
}

bool NamespaceTable::is_open(std::uint32_t handle) const {
  const std::uint32_t place = protocol::namespace_place(handle);
  return place < places_.size() && places_[place].space && handle_at(place) == handle;
}

std::vector<std::uint32_t> NamespaceTable::handles() const {
  std::vector<std::uint32_t> handles;
  for (std::uint32_t place = 0; place < places_.size(); ++place)
    if (places_[place].space) handles.push_back(handle_at(place));
  return handles;
}

void NamespaceTable::join(std::uint32_t handle) {
  Namespace& space = at(handle);
  ++space.sessions;
  space.left = false;
}

void NamespaceTable::leave(std::uint32_t handle) {
  Namespace& space = at(handle);
  space.left = --space.sessions == 0;
  touch(handle);
}

bool NamespaceTable::give_back(std::uint32_t handle) {
  const Namespace& space = at(handle);
  // A slot in any state still names the handle. A place given away early would put its chunks into
  // another namespace.
  if (!space.left || space.slots != 0) return false;  // mutation: place-left
  Place& place = places_[protocol::namespace_place(handle)];
  place.space.reset();
  --open_;
  ++given_back_;
  if (place.generation < protocol::kLastNamespaceGeneration) {  // else the place is used up
    ++place.generation;                                         // mutation: place-generation
    free_.push_back(protocol::namespace_place(handle));
  }
  return true;
}

std::uint64_t NamespaceTable::largest_slot_bytes() const {
  std::uint64_t largest = 0;
  for (const Place& place : places_)
    if (place.space) largest = std::max(largest, place.space->slot_bytes);
  return largest;
}

std::uint64_t NamespaceTable::largest_family_bytes() const {
  std::uint64_t largest = 0;
  for (const Place& place : places_)
    if (place.space) largest = std::max(largest, place.space->family_bytes);
  return largest;
}

std::optional<std::uint32_t> NamespaceTable::least_used() const {
  std::optional<std::uint32_t> least;
  const auto before = [](const Namespace& a, const Namespace& b) {
    return std::pair(a.pinned != 0, a.used) < std::pair(b.pinned != 0, b.used);
  };
  for (const std::uint32_t handle : handles())
    if (at(handle).left && (!least || before(at(handle), at(*least))))
      // Only namespaces that every session left. A namespace in use is never closed for another.
      least = handle;  // mutation: place-evict-left
  return least;
}

std::string NamespaceTable::describe_difference(const NamespaceSpec& spec) const {
  std::vector<const Namespace*> known;
  for (const Place& place : places_)
    if (place.space) known.push_back(place.space.get());
  const auto newest =
      // The newest ones: the nearest text is most likely that of the engine's last start.
      known.begin() + static_cast<std::ptrdiff_t>(std::min(known.size(), kMostCompared));
  std::partial_sort(known.begin(), newest, known.end(),
                    [](const auto* a, const auto* b) { return a->used > b->used; });
  FingerprintDifference least;
  const Namespace* nearest = nullptr;
  for (auto one = known.begin(); one != newest; ++one) {
    FingerprintDifference difference =
        diff_fingerprints(*(*one)->spec.fingerprint, *spec.fingerprint);
    if (nearest != nullptr && difference.fields >= least.fields) continue;
    least = std::move(difference);
    nearest = *one;
  }
  if (nearest == nullptr) return "";
  const std::string name =
      "differs from namespace " + nearest->spec.id.to_hex().substr(0, 8) + " in: ";
  if (nearest->spec.id != spec.id) return name + least.text;
  return name +
         "the chunk layout alone; a fingerprint must name everything that decides the layout";
}

Result<std::vector<std::uint32_t>> NamespaceTable::by_prefix(const std::string& prefix) const {
  if (prefix.size() < 4 || prefix.size() > 32 ||
      prefix.find_first_not_of("0123456789abcdef") != std::string::npos)
    return Status(Code::kInvalidArgument,
                  "'" + prefix + "' is no namespace: give 4 to 32 lower-case hex digits of its id");
  std::vector<std::uint32_t> found;
  for (const std::uint32_t handle : handles()) {
    if (!at(handle).spec.id.to_hex().starts_with(prefix)) continue;
    if (!found.empty() && at(found.front()).spec.id != at(handle).spec.id)
      return Status(Code::kOutOfRange,
                    "several namespaces start with " + prefix + ": give more digits");
    found.push_back(handle);
  }
  if (found.empty()) return Status(Code::kNotFound, "no namespace starts with " + prefix);
  std::ranges::sort(
      found, [this](std::uint32_t a, std::uint32_t b) { return at(a).chunks > at(b).chunks; });
  return found;
}

}  // namespace larder::store
