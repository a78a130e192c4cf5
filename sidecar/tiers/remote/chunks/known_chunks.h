// KnownChunks of the remote tier: with the whole record, so that a get needs no question for the parts.
#pragma once

#include "sidecar/tiers/known_chunks.h"
#include "sidecar/tiers/remote/format.h"

namespace larder::remote {

using KnownChunks = tiers::KnownChunks<Record>;

}  // namespace larder::remote
