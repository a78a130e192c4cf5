// The inner loops of the host's copy engine: copy one piece and hash, unit by unit, the very bytes that are stored.
//
// Each variant stands in an object file of its own, compiled for its instruction set. These files include no C++ standard library
// header: an inline function of it, compiled there with AVX code, could be the copy that the linker keeps for everybody.
// Thread-safe: pure functions over the caller's memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace larder::copy {

struct HostLoop {
  const char* name;
  // Copies `bytes` from `from` to `to` and writes one digest for each unit of at most 4 KiB (protocol/checksum.h). Every digest is
  // taken of the values that were stored. What it stored may become visible late: see publish. `next` is what the caller reads after
  // this piece: it is brought into cache where the loop does that, and may be any address.
  void (*copy_piece)(void* to, const void* from, uint64_t bytes, uint64_t* digests, const void* next);
  // The same without digests: a digest table, into memory that nobody reads soon. REQUIRES: both aligned to 8 bytes.
  void (*copy_words)(void* to, const uint64_t* from, uint64_t words);
  // Orders everything that was stored by these before whatever this thread stores next.
  void (*publish)();
};

// Runs everywhere.
extern const HostLoop kPortableLoop;
#if defined(__x86_64__)
// REQUIRES a processor that has the instruction set.
extern const HostLoop kAvx2Loop;
#endif

// Payloads may be overwritten while they are read (a slot reclaimed under a load, a page reused under a save): that race is by design
// and is found by the checksum. These attributes stand on the functions that touch payload bytes, and nowhere else.
// Neither compiler may turn their loops into a call of memcpy, which ThreadSanitizer would see.
#if defined(__clang__)
#define LARDER_RACES_BY_DESIGN __attribute__((no_sanitize("thread"), no_builtin("memcpy")))
#else
#define LARDER_RACES_BY_DESIGN __attribute__((no_sanitize("thread"), optimize("no-tree-loop-distribute-patterns")))
#endif

// The copy of everything that is no whole, aligned unit: digest tables and odd ends.
void racy_copy(void* to, const void* from, uint64_t bytes);

// Whether they are equal, for a digest table that may be overwritten meanwhile: then either answer.
bool racy_equal(const uint64_t* table, const void* other, uint64_t bytes);

// One unit of at most 4 KiB at any alignment, through a buffer. Returns its digest.
uint64_t copy_unit_portable(void* to, const void* from, uint64_t bytes);

}  // namespace larder::copy
