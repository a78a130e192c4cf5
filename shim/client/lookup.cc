#include "shim/client/lookup.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "shim/base/test_point.h"

namespace larder::client {
namespace {

// Keys whose cache lines are requested at one time: enough to hide the latency of memory, few
// enough for the processor's miss buffers.
constexpr std::size_t kBatch = 16;

// The keys of a prompt in order: every part of a chunk, then the next chunk.
class KeyWalk {
 public:
  KeyWalk(const Attachment& attachment, Parts parts, const Hashes& hashes)
      : hashes_(hashes), handle_(attachment.namespace_handle(hashes.ns)), parts_(parts) {}

  // REQUIRES: called at most keys() times.
  protocol::Key next() {
    const protocol::Key key{hashes_.at(chunk_), handle_, parts_[part_].shard, parts_[part_].group};
    if (++part_ == parts_.size()) {
      part_ = 0;
      ++chunk_;
    }
    return key;
  }
  std::size_t keys() const { return hashes_.count * parts_.size(); }

 private:
  const Hashes& hashes_;
  const std::uint32_t handle_;
  const Parts parts_;
  std::size_t chunk_ = 0, part_ = 0;
};

// The number of the last chunk for which `has` holds, counted from 1; 0: none.
template <typename Has>
std::size_t last_of(const Hashes& hashes, const Has& has) {
  for (std::size_t chunk = hashes.count; chunk > 0; --chunk)
    if (has(Hashes{hashes.bytes + (chunk - 1) * hashes.stride_bytes, hashes.stride_bytes, 1,
                   hashes.ns}))
      return chunk;
  return 0;
}

}  // namespace

std::size_t count_present(const Attachment& attachment, Parts parts, const Hashes& hashes) {
  const protocol::IndexReader& index = attachment.index();
  if (index.dead() || parts.empty()) return 0;
  KeyWalk walk(attachment, parts, hashes);
  std::array<protocol::IndexReader::Probe, kBatch> probes;
  for (std::size_t first = 0; first < walk.keys(); first += kBatch) {
    const std::size_t count = std::min(kBatch, walk.keys() - first);
    // Three passes: each starts the memory accesses of all keys before the next pass needs them.
    for (std::size_t i = 0; i < count; ++i) probes[i] = index.start(walk.next());
    for (std::size_t i = 0; i < count; ++i) index.advance(probes[i]);
    for (std::size_t i = 0; i < count; ++i)
      // The first missing part ends the prefix. Parts of one chunk are neighbours, so the division
      // gives its chunk.
      if (!index.finish(probes[i])) return (first + i) / parts.size();
  }
  return hashes.count;
}

std::size_t count_reachable(const Attachment& attachment, Parts parts, const Hashes& hashes,
                            const protocol::NamespaceId& id) {
  const protocol::IndexReader& index = attachment.index();
  const protocol::ResidencyReader& residency = attachment.residency();
  if (index.dead() || parts.empty()) return 0;
  KeyWalk walk(attachment, parts, hashes);
  struct Probe {
    protocol::IndexReader::Probe above;
    protocol::ResidencyPlace below;
  };
  std::array<Probe, kBatch> probes;
  for (std::size_t first = 0; first < walk.keys(); first += kBatch) {
    const std::size_t count = std::min(kBatch, walk.keys() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const protocol::Key key = walk.next();
      probes[i].above = index.start(key);
      if (residency.valid()) probes[i].below = residency.place(id, key.hash, key.shard, key.group);
    }
    for (std::size_t i = 0; i < count; ++i) index.advance(probes[i].above);
    for (std::size_t i = 0; i < count; ++i)
      if (!index.finish(probes[i].above) && !(residency.valid() && residency.has(probes[i].below)))
        return (first + i) / parts.size();
  }
  return hashes.count;
}

std::size_t last_present(const Attachment& attachment, Parts parts, const Hashes& hashes) {
  // From the end, one chunk at a time: a model with states needs only the last one.
  return last_of(hashes,
                 [&](const Hashes& one) { return count_present(attachment, parts, one) == 1; });
}

std::size_t last_reachable(const Attachment& attachment, Parts parts, const Hashes& hashes,
                           const protocol::NamespaceId& id) {
  return last_of(
      hashes, [&](const Hashes& one) { return count_reachable(attachment, parts, one, id) == 1; });
}

HoldSet::HoldSet(std::shared_ptr<Attachment> attachment, Parts parts, const Hashes& hashes)
    : attachment_(std::move(attachment)) {
  if (attachment_->index().dead() || parts.empty()) return;
  // All memory is reserved here, so that push_back() cannot throw while a place is held.
  places_.reserve(std::min<std::size_t>(hashes.count * parts.size(), protocol::kMaxHolds));
  std::vector<EventFields> uses;
  uses.reserve(places_.capacity());
  while (chunks_ < hashes.count && hold_chunk(parts, hashes.ns, hashes.at(chunks_), uses))
    ++chunks_;
  // The last use counts most, and a tail is useless without its head: report the head last.
  for (const EventFields& use : std::views::reverse(uses)) attachment_->events().add(use);
}

HoldSet::~HoldSet() {
  for (const std::uint32_t place : places_) attachment_->holds().release(place);
}

// Holds all parts of the chunk, or none.
bool HoldSet::hold_chunk(Parts parts, std::uint32_t ns, const protocol::BlockHash& hash,
                         std::vector<EventFields>& uses) {
  const std::size_t before = places_.size();
  for (const Part part : parts) {
    const auto view = attachment_->index().find(attachment_->key(ns, hash, part.shard, part.group));
    const auto place =
        view ? attachment_->holds().acquire(attachment_->index(), view->slot, view->generation)
             : std::nullopt;
    if (place) {
      LARDER_POINT(chunk_held);
      places_.push_back(*place);
      uses.push_back({protocol::EventKind::kTouch, view->slot, view->generation});
      continue;
    }
    // A chunk without one of its parts is useless; holding the others would only block eviction.
    for (; places_.size() > before; places_.pop_back(), uses.pop_back())
      attachment_->holds().release(places_.back());
    return false;
  }
  return true;
}

}  // namespace larder::client
