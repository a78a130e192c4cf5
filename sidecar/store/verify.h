// Checks the bytes of a chunk in the arena against the root.
#pragma once

#include <cstddef>

#include "shim/protocol/index_layout.h"

namespace larder::store {

// `slot`: the start of the payload; the digest table is behind the payload. REQUIRES:
// view.piece_bytes > 0, and the payload is a multiple of it.
bool verify_payload(const std::byte* slot, const protocol::EntryView& view);

}  // namespace larder::store
