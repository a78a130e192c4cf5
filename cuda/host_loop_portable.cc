#include "cuda/host_loop.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace larder::copy {
namespace {

constexpr uint64_t kUnitBytes = 4096;

void copy_piece(void* to, const void* from, uint64_t bytes, uint64_t* digests, const void*) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  for (uint64_t at = 0; at < bytes; at += kUnitBytes)
    *digests++ =
        copy_unit_portable(out + at, in + at, bytes - at < kUnitBytes ? bytes - at : kUnitBytes);
}

void copy_words(void* to, const uint64_t* from, uint64_t words) {
  racy_copy(to, from, words * sizeof(uint64_t));
}

// These are ordinary stores: the release store that publishes the chunk orders them.
void publish() {}

}  // namespace

const HostLoop kPortableLoop{"portable", copy_piece, copy_words, publish};

// Copies words by __builtin_memcpy of a constant size, which becomes a load and a store.
// ThreadSanitizer would report a call of memcpy.
LARDER_RACES_BY_DESIGN void racy_copy(void* to, const void* from, uint64_t bytes) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  uint64_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    uint64_t words[8];
    __builtin_memcpy(words, in + at, sizeof(words));
    __builtin_memcpy(out + at, words, sizeof(words));
  }
  for (; at < bytes; ++at) out[at] = in[at];
}

LARDER_RACES_BY_DESIGN bool racy_equal(const uint64_t* table, const void* other, uint64_t bytes) {
  const auto* in = static_cast<const unsigned char*>(other);
  uint64_t different = 0;
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    __builtin_memcpy(&word, in + at, sizeof(word));
    // Without a branch, so the loop runs at the speed of memory.
    different |= word ^ table[at / sizeof(uint64_t)];
  }
  return different == 0;
}

// The buffer stays in the first-level cache and is private, so the hash is of the stored bytes.
uint64_t copy_unit_portable(void* to, const void* from, uint64_t bytes) {
  alignas(64) unsigned char buffer[kUnitBytes];
  racy_copy(buffer, from, bytes);
  const uint64_t digest = XXH3_64bits(buffer, bytes);
  racy_copy(to, buffer, bytes);
  return digest;
}

}  // namespace larder::copy
