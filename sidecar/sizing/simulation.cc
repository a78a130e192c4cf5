#include "sidecar/sizing/simulation.h"

#include <memory>
#include <unordered_map>

namespace larder::sizing {
namespace {

// For each chunk of each request, the number of the next request with this chunk.
std::vector<std::vector<std::uint64_t>> next_uses(std::span<const TracedRequest> trace) {
  std::vector<std::vector<std::uint64_t>> next(trace.size());
  std::unordered_map<std::uint64_t, std::uint64_t> later;
  for (std::size_t i = trace.size(); i-- > 0;) {
    for (const std::uint64_t chunk : trace[i].chunks) {
      const auto found = later.find(chunk);
      next[i].push_back(found == later.end() ? SimulatedCache::kNever : found->second);
    }
    for (const std::uint64_t chunk : trace[i].chunks) later[chunk] = i;
  }
  return next;
}

}  // namespace

void replay(std::span<const TracedRequest> trace, SimulatedCache& cache,
            const std::function<void(std::size_t, std::size_t)>& seen) {
  const std::vector<std::vector<std::uint64_t>> next = next_uses(trace);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const TracedRequest& request = trace[i];
    std::size_t hit = 0;
    // A chunk counts as found when all chunks before it are found: a prefix is loaded, not single
    // chunks. Chunks after the first miss are stored again only where they are missing.
    // A trace has no drops, so a drop in the recorded time makes this result exceed the estimate.
    // Lower tiers are left out: the question is how much memory to buy.
    cache.begin();
    for (; hit < request.chunks.size() && cache.has(request.chunks[hit]); ++hit)
      cache.use(request.chunks[hit], next[i][hit]);
    for (std::size_t at = hit; at < request.chunks.size(); ++at)
      if (!cache.has(request.chunks[at]) &&
          !cache.insert(request.chunks[at], request.chunk_bytes, next[i][at]))
        break;
    seen(i, hit);
  }
}

Result<Simulated> simulate(std::span<const TracedRequest> trace, std::string_view policy,
                           std::uint64_t size_bytes, std::size_t warm_up) {
  const Result<std::unique_ptr<SimulatedCache>> cache = make_cache(policy, size_bytes);
  if (!cache.ok()) return cache.status();
  Simulated sums;
  replay(trace, **cache, [&](std::size_t i, std::size_t hit) {
    if (i < warm_up) return;
    const TracedRequest& request = trace[i];
    ++sums.requests;
    sums.requests_hit += hit != 0;
    sums.chunks += request.chunks.size();
    sums.chunks_hit += hit;
    sums.tokens += request.tokens;
    sums.tokens_hit += request.tokens_of(hit);
  });
  return sums;
}

std::uint64_t distinct_bytes(std::span<const TracedRequest> trace) {
  std::unordered_map<std::uint64_t, std::uint64_t> bytes;
  for (const TracedRequest& request : trace)
    for (const std::uint64_t chunk : request.chunks) bytes[chunk] = request.chunk_bytes;
  std::uint64_t sum = 0;
  for (const auto& [chunk, of_chunk] : bytes) sum += of_chunk;
  return sum;
}

}  // namespace larder::sizing
