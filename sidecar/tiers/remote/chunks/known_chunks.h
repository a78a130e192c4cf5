// KnownChunks of the remote tier: with the whole record, so a get knows the parts of a chunk.
#pragma once

#include "sidecar/tiers/known_chunks.h"
#include "sidecar/tiers/remote/format.h"

namespace larder::remote {

using KnownChunks = tiers::KnownChunks<Record>;

}  // namespace larder::remote
