#include "sidecar/session/reuse_tracker.h"

#include <algorithm>
#include <cmath>

#include "shim/protocol/checksum.h"
#include "shim/protocol/index_layout.h"
#include "shim/protocol/namespace_kind.h"

namespace larder::session {
namespace {

// The key of a chunk in the estimate: equal in every larderd and independent of the handle.
// Equal hashes of two namespaces (for example two models with one prompt) are different chunks.
std::uint64_t key_of(const store::Namespace& space, std::uint64_t hash) {
  return hash ^ space.spec.id.lo;
}

// The owner of a chunk in the estimate. If two namespaces share 32 bits, a drop of one also removes
// the chunks of the other from the sample.
std::uint32_t owner_of(const store::Namespace& space) {
  return protocol::low_half(space.spec.id.lo);
}

// Integers up to 2^53 are exact in every JSON reader.
constexpr std::uint64_t kExact = (1ULL << 53) - 1;

}  // namespace

void ReuseTracker::tick(std::uint64_t now_ms) {
  // The estimate runs on the thread of the loop, so each tick has a budget of chunks.
  left_ = kChunksPerTick;
  // Before the first tick no time counts.
  if (now_ms_ != 0) curve_.fade(std::exp2(-static_cast<double>(now_ms - now_ms_) / kHalfLifeMs));
  now_ms_ = now_ms;
}

void ReuseTracker::asked(std::uint32_t handle, std::span<const std::uint64_t> hashes,
                         std::uint64_t tokens, std::uint64_t tokens_hit) {
  const store::Namespace& space = namespaces_.at(handle);
  const std::uint64_t bytes = space.family_bytes, chunk_tokens = space.spec.chunk_tokens;
  const std::uint64_t covered = hashes.size() * chunk_tokens;
  // `bytes` is 0 until an engine has reported the layout of a shard.
  if (left_ == 0 || bytes == 0 || covered > tokens + chunk_tokens)
    return;  // the engine may have a part of the first chunk
  left_ -= std::min(left_, hashes.size());
  for (const std::uint64_t hash : hashes)
    curve_.asked(key_of(space, hash), bytes, static_cast<double>(chunk_tokens), owner_of(space));
  // Tokens without a hash, such as the tail of a prompt, count as requested: no memory size could
  // serve these tokens.
  curve_.asked_in_vain(static_cast<double>(tokens - std::min(tokens, covered)));
  if (traced_.wanted(now_ms_)) trace(space, bytes, hashes, tokens, tokens_hit);
}

void ReuseTracker::stored(std::uint32_t handle, std::span<const protocol::BlockHash> hashes) {
  const store::Namespace& space = namespaces_.at(handle);
  // Requests name whole chunks of tokens. A state, or a piece of a tail, would look like a chunk
  // without any use.
  if (!protocol::is_of_whole_chunks(*space.spec.fingerprint)) return;  // mutation: curve-no-states
  const std::uint64_t bytes = space.family_bytes;
  for (const protocol::BlockHash& hash : hashes)
    curve_.stored(key_of(space, hash.lo), bytes, owner_of(space));
}

void ReuseTracker::dropped(std::uint32_t handle) {
  curve_.dropped(owner_of(namespaces_.at(handle)));
}

void ReuseTracker::trace(const store::Namespace& space, std::uint64_t chunk_bytes,
                         std::span<const std::uint64_t> hashes, std::uint64_t tokens,
                         std::uint64_t tokens_hit) {
  stats::AskedRequest request{
      now_ms_, space.spec.model, tokens, tokens_hit, space.spec.chunk_tokens, chunk_bytes, {}};
  request.chunks.reserve(hashes.size());
  // Cut to 53 bits: `larderctl trace` and other readers parse the trace as JSON numbers.
  for (const std::uint64_t hash : hashes) request.chunks.push_back(key_of(space, hash) & kExact);
  traced_.add(std::move(request));
}

}  // namespace larder::session
