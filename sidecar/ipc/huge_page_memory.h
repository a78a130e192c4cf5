// Private memory in 2 MiB pages where the kernel gives such (transparent_hugepage is `madvise` or `always`), else in usual ones: for
// tables that are visited in no order of memory, where every other visit of a small page would first wait for the page tables.
//
// Thread-safe. Each allocation is a mapping of its own, zero, charged when it is first written.
#pragma once

#include <memory_resource>

namespace larder::ipc {

std::pmr::memory_resource& huge_page_memory();

}  // namespace larder::ipc
