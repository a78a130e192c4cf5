// Drop: the progress of a drop of a namespace or of all namespaces, slice by slice. Plain data: the
// session that asked for the drop owns it, and passes it to Store::drop() until `done`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace larder::store {

struct Drop {
  std::optional<std::uint32_t> handle = {};  // empty: every namespace
  // Lower tiers keep their chunks. The drop ends early when a session opens the namespace, or when
  // its last chunk is gone. REQUIRES: a handle.
  bool memory_only = false;
  std::uint64_t dropped = 0;  // chunks
  std::uint32_t next = 0;     // the next slot to look at
  bool done = false;
  std::vector<std::shared_ptr<void>> announced = {};  // made by the listeners at the first slice
};

}  // namespace larder::store
