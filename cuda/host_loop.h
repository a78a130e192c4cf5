// The inner loops of the host's copy engine. A loop copies one piece and hashes the stored bytes,
// unit by unit. The source of store and hash is the same register or private buffer.
//
// Each variant is compiled for its instruction set in its own object file, and
// __builtin_cpu_supports chooses at first use. These files include no C++ standard library header:
// the linker could otherwise keep an inline function with AVX code as the one copy for the whole
// program.
//
// Thread-safe: pure functions over the caller's memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace larder::copy {

struct HostLoop {
  const char* name;
  // Copies `bytes` bytes and writes one digest for each unit of at most 4 KiB
  // (protocol/checksum.h). Each digest is of the stored values. Other threads may see the stores
  // late: see publish. `next` is the address that the caller reads after this piece. A loop may
  // prefetch there. Any address is allowed.
  void (*copy_piece)(void* to, const void* from, uint64_t bytes, uint64_t* digests,
                     const void* next);
  // Copies a digest table, without digests, into memory that is not read soon. REQUIRES: both
  // addresses are aligned to 8 bytes.
  void (*copy_words)(void* to, const uint64_t* from, uint64_t words);
  // Orders all stores of these functions before the next stores of this thread.
  void (*publish)();
};

// Runs on every processor.
extern const HostLoop kPortableLoop;
#if defined(__x86_64__)
// REQUIRES: the processor has the instruction set.
extern const HostLoop kAvx2Loop;
#endif

// Another process may overwrite a payload during a read (a slot reclaimed during a load, a page
// reused during a save). This race is by design, and the checksum detects it. The attributes stand
// on the functions that touch payload bytes, and nowhere else. The attributes also keep both
// compilers from turning a loop into a call of memcpy, which ThreadSanitizer would report.
#if defined(__clang__)
#define LARDER_RACES_BY_DESIGN __attribute__((no_sanitize("thread"), no_builtin("memcpy")))
#else
#define LARDER_RACES_BY_DESIGN \
  __attribute__((no_sanitize("thread"), optimize("no-tree-loop-distribute-patterns")))
#endif

// Copies bytes that are no whole, aligned unit: digest tables and odd ends.
void racy_copy(void* to, const void* from, uint64_t bytes);

// Whether both tables are equal. If another process writes meanwhile, either answer is right.
bool racy_equal(const uint64_t* table, const void* other, uint64_t bytes);

// Copies one unit of at most 4 KiB at any alignment through a buffer. Returns its digest.
uint64_t copy_unit_portable(void* to, const void* from, uint64_t bytes);

}  // namespace larder::copy
