#include "sidecar/ipc/chunk_verbs.h"

namespace larder::ipc {

store::VerbCounts act(store::Store& store, stats::Stats& stats, protocol::Verb verb, std::uint32_t handle,
                      std::span<const protocol::BlockHash> hashes) {
  switch (verb) {
    case protocol::Verb::kPrefetch: stats.asked_to_prefetch += hashes.size(); return store.prefetch(handle, hashes);
    case protocol::Verb::kPin: stats.asked_to_pin += hashes.size(); return store.pin(handle, hashes);
    case protocol::Verb::kUnpin: stats.asked_to_unpin += hashes.size(); return store.unpin(handle, hashes);
    case protocol::Verb::kEvict: stats.asked_to_evict += hashes.size(); return store.evict(handle, hashes);
  }
  return {};
}

}  // namespace larder::ipc
