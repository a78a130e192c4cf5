#include "sidecar/tiering/refused_chunks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sidecar/base/log.h"

namespace larder::tiering {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kLeastNs = kSecondNs, kMostNs = 300 * kSecondNs, kFullNs = 5 * kSecondNs;
constexpr std::uint64_t kLineNs = 60 * kSecondNs, kForgottenNs = 600 * kSecondNs;
// A walk over the whole table of 65,536 entries would show as a pause of the loop.
constexpr std::size_t kSlice = 4096;

}  // namespace

bool RefusedChunks::waits(const protocol::SlotRef& chunk, std::uint64_t now_ns) const {
  const auto found = chunks_.find(chunk.slot);
  if (found != chunks_.end() && found->second.generation == chunk.generation)
    return now_ns < found->second.next_ns;
  return chunks_.size() >= kMost && now_ns < full_until_ns_;
}

void RefusedChunks::refused(const protocol::SlotRef& chunk, const Status& why,
                            std::uint64_t again_ns, std::uint64_t now_ns) {
  auto found = chunks_.find(chunk.slot);
  // The slot has another chunk now. Its first refusal must not inherit the pauses of the former
  // chunk.
  if (found != chunks_.end() && found->second.generation != chunk.generation) found = erase(found);
  if (found == chunks_.end() || found->first != chunk.slot) {
    if (chunks_.size() >= kMost) {
      full_until_ns_ = now_ns + kFullNs;
      return;
    }
    found = chunks_.emplace(chunk.slot, Chunk{chunk.generation}).first;
  }
  Chunk& one = found->second;
  if (one.cause < kMostCauses) --causes_[one.cause].waiting;
  one.cause = why.text().empty() ? kMostCauses : cause_of(why.text());
  // Only a refusal after traffic doubles the pause. An offer that moved no byte may be repeated
  // cheaply.
  const bool sent = again_ns == 0 && !why.text().empty();
  one.wait_ns = sent ? std::clamp(2 * one.wait_ns, kLeastNs, kMostNs) : 0;
  // Jitter of a quarter, so thousands of refused chunks do not come back at one moment.
  one.next_ns = sent            ? now_ns + one.wait_ns + random_() % (one.wait_ns / 4)
                : again_ns != 0 ? again_ns
                                : now_ns + kLeastNs;
  if (one.cause == kMostCauses) return;
  Cause& cause = causes_[one.cause];
  ++cause.waiting;
  if (again_ns == 0) ++cause.refusals;
  if (cause.refusals != 0 && now_ns >= cause.next_line_ns) tell(cause, now_ns);
}

void RefusedChunks::tell(Cause& cause, std::uint64_t now_ns) {
  base::log_warning(name_ + " tier: chunks wait to be written, " + std::to_string(cause.waiting) +
                    " at present: " + cause.text +
                    (cause.logged ? "; " + std::to_string(cause.refusals) + " more refusals" : ""));
  cause.logged = true;
  cause.refusals = 0;
  cause.next_line_ns = now_ns + kLineNs;
}

void RefusedChunks::stored(const protocol::SlotRef& chunk, std::uint64_t now_ns) {
  const auto found = chunks_.find(chunk.slot);
  if (found == chunks_.end()) return;
  const std::size_t number = found->second.cause;
  erase(found);
  if (number == kMostCauses) return;
  Cause& cause = causes_[number];
  // One stored chunk shows that the cause is over. Sent and refused chunks keep the pause: the
  // size may be the reason.
  for (auto at = chunks_.begin(); at != chunks_.end() && cause.waiting != 0;)
    at = at->second.cause == number && at->second.wait_ns == 0 ? erase(at) : std::next(at);
  if (cause.waiting != 0 || !std::exchange(cause.logged, false)) return;
  base::log_info(name_ + " tier: chunks are written again, which waited: " + cause.text);
  cause.next_line_ns = std::max(cause.next_line_ns, now_ns);
}

void RefusedChunks::forget(const protocol::SlotRef& chunk) {
  if (const auto found = chunks_.find(chunk.slot); found != chunks_.end()) erase(found);
}

void RefusedChunks::give_back(const InMemory& in_memory, std::uint64_t now_ns) {
  auto at = chunks_.lower_bound(looked_to_);
  for (std::size_t probed = 0; probed < kSlice && at != chunks_.end(); ++probed) {
    const bool stays =
        now_ns < at->second.next_ns + kForgottenNs && in_memory(at->first, at->second.generation);
    at = stays ? std::next(at) : erase(at);
  }
  // The slot and not an iterator: the entry may be erased before the next slice.
  looked_to_ = at == chunks_.end() ? 0 : at->first;
}

void RefusedChunks::tier_is_back() {
  for (auto at = chunks_.begin(); at != chunks_.end();)
    at = at->second.wait_ns == 0 ? erase(at) : std::next(at);
  full_until_ns_ = 0;
}

std::string RefusedChunks::reason() const {
  const Cause& most = *std::ranges::max_element(causes_, {}, &Cause::waiting);
  return most.waiting == 0 ? "" : most.text;
}

RefusedChunks::Chunks::iterator RefusedChunks::erase(Chunks::iterator at) {
  if (at->second.cause < kMostCauses) --causes_[at->second.cause].waiting;
  return chunks_.erase(at);
}

// A new cause takes the place of a cause without waiting chunks, and inherits the time of the next
// line: the rate of lines stays bounded.
std::size_t RefusedChunks::cause_of(const std::string& text) {
  const auto known = std::ranges::find(causes_, text, &Cause::text);
  if (known != causes_.end()) return static_cast<std::size_t>(known - causes_.begin());
  auto free = std::ranges::find(causes_, std::string(), &Cause::text);
  if (free == causes_.end())
    free = std::ranges::find_if(causes_, [](const Cause& cause) { return cause.waiting == 0; });
  // A server may invent new texts without end. The table of causes has a fixed size.
  if (free == causes_.end()) return kMostCauses - 1;
  const std::uint64_t next_line_ns = free->next_line_ns;
  *free = {text, 0, 0, next_line_ns};
  return static_cast<std::size_t>(free - causes_.begin());
}

}  // namespace larder::tiering
