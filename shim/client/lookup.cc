#include "shim/client/lookup.h"

#include <algorithm>

namespace larder::client {
namespace {

// Keys whose cache lines are on their way at one time: enough to hide memory, few enough for the processor's fill buffers.
constexpr std::size_t kBatch = 16;

bool chunk_present(const Attachment& attachment, const NamespaceSpec& spec, const protocol::BlockHash& hash) {
  for (std::uint16_t shard = 0; shard < spec.shard_count; ++shard)
    for (std::uint16_t group = 0; group < spec.groups.size(); ++group)
      if (!attachment.index().find(attachment.key(hash, shard, group))) return false;
  return true;
}

}  // namespace

std::size_t count_present(const Attachment& attachment, const NamespaceSpec& spec, const Hashes& hashes) {
  if (attachment.index().dead()) return 0;
  const protocol::IndexReader& index = attachment.index();
  for (std::size_t start = 0; start < hashes.count; start += kBatch) {
    const std::size_t end = std::min(start + kBatch, hashes.count);
    for (std::size_t i = start; i < end; ++i) index.prefetch(attachment.key(hashes.at(i), 0, 0));
    for (std::size_t i = start; i < end; ++i) index.prefetch_entry(attachment.key(hashes.at(i), 0, 0));
    for (std::size_t i = start; i < end; ++i)
      if (!chunk_present(attachment, spec, hashes.at(i))) return i;
  }
  return hashes.count;
}

HoldSet::HoldSet(std::shared_ptr<Attachment> attachment, const NamespaceSpec& spec, const Hashes& hashes)
    : attachment_(std::move(attachment)) {
  if (attachment_->index().dead()) return;
  while (chunks_ < hashes.count && hold_chunk(spec, hashes.at(chunks_))) ++chunks_;
}

HoldSet::~HoldSet() {
  for (const std::uint32_t place : places_) attachment_->holds().release(place);
}

// All shards and groups, or none.
bool HoldSet::hold_chunk(const NamespaceSpec& spec, const protocol::BlockHash& hash) {
  const std::size_t before = places_.size();
  for (std::uint16_t shard = 0; shard < spec.shard_count; ++shard) {
    for (std::uint16_t group = 0; group < spec.groups.size(); ++group) {
      const auto view = attachment_->index().find(attachment_->key(hash, shard, group));
      const auto place = view ? attachment_->holds().acquire(attachment_->index(), view->slot, view->generation) : std::nullopt;
      if (place) {
        places_.push_back(*place);
        attachment_->events().add({protocol::EventKind::kTouch, view->slot, view->generation});
        continue;
      }
      for (; places_.size() > before; places_.pop_back()) attachment_->holds().release(places_.back());
      return false;
    }
  }
  return true;
}

}  // namespace larder::client
