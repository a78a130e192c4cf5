// Huge pages for the arena: whether the mount and enough free pages are there, in words that say what to do. Stateless; runs at
// start.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/status.h"
#include "sidecar/memory/numa.h"

namespace larder::memory {

// `page_bytes` is 2 MiB or 1 GiB; `nodes` those that the pages must come from, empty for any. kFailedPrecondition: `directory` is
// no hugetlbfs of such pages. kResourceExhausted: too few are free: how many, of how many needed, and how to reserve them.
Status check_huge_pages(const std::string& directory, std::uint64_t page_bytes, std::uint64_t arena_bytes,
                        const NumaNodes& nodes);

}  // namespace larder::memory
