// SessionMemory: the memfd of a session region, which engine and larderd share. The size is fixed
// and sealed, so that neither side can shrink or grow the memfd: a shrunken file would be a SIGBUS
// of the other side.
//
// Owned by the thread of the loop.
#pragma once

#include "shim/base/fd.h"
#include "shim/protocol/session_layout.h"

namespace larder::memory {

// Owns its descriptor and its mapping.
struct SessionMemory {
  Fd fd;
  Mapping mapping;

  static Result<SessionMemory> create();
  const protocol::SessionRegion& region() const {
    return *reinterpret_cast<const protocol::SessionRegion*>(mapping.data());
  }
};

}  // namespace larder::memory
