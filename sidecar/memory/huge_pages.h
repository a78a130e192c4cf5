// Huge pages for the arena: checks the mount and the number of free pages. Errors name the remedy.
// Stateless; runs at start.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/status.h"
#include "sidecar/memory/numa.h"

namespace larder::memory {

// `page_bytes`: 2 MiB or 1 GiB. `nodes`: the nodes that the pages must come from; empty for any
// node. kFailedPrecondition: `directory` is no hugetlbfs with pages of that size.
// kResourceExhausted: too few pages are free; the error gives the free and the needed number, and a
// command to reserve pages.
Status check_huge_pages(const std::string& directory, std::uint64_t page_bytes,
                        std::uint64_t arena_bytes, const NumaNodes& nodes);

}  // namespace larder::memory
