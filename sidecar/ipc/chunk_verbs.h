// Prefetch, pin, unpin and evict, as engines and people ask for them. Owned by the loop's thread.
#pragma once

#include <span>

#include "shim/protocol/messages.h"
#include "sidecar/store/store.h"

namespace larder::ipc {

// Does the verb on the chunks of each hash in the namespace, and counts it. REQUIRES: a verb that there is, an open handle.
store::VerbCounts act(store::Store& store, stats::Stats& stats, protocol::Verb verb, std::uint32_t handle,
                      std::span<const protocol::BlockHash> hashes);

}  // namespace larder::ipc
