// Whether a chunk's bytes in the arena match its root checksum.
#pragma once

#include <cstddef>

#include "shim/protocol/index_layout.h"

namespace larder::store {

// `slot` is the start of the payload; the digest table stands behind it. REQUIRES: view.piece_bytes > 0 and the payload a
// multiple.
bool verify_payload(const std::byte* slot, const protocol::EntryView& view);

}  // namespace larder::store
