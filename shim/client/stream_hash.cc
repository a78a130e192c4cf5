#include "shim/client/stream_hash.h"

#include <algorithm>
#include <iterator>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace larder::client {

void update_portable(void* state, const void* bytes, std::size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

HashUpdate best_update() {
#if defined(__x86_64__)
  // Chosen at run time: one library serves every x86-64 machine.
  if (__builtin_cpu_supports("avx2")) return update_avx2;
#endif
  return update_portable;
}

StreamHash::StreamHash(HashUpdate kind) : update_(kind) {
  static_assert(sizeof(XXH3_state_t) <= kStateBytes && alignof(XXH3_state_t) <= 64);
  XXH3_128bits_reset(reinterpret_cast<XXH3_state_t*>(state_));
}

StreamHash::Digest StreamHash::digest() const {
  // The canonical form is the same on machines of both byte orders, and is what `xxh128sum`
  // prints.
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical,
                           XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(state_)));
  Digest bytes;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), bytes.begin());
  return bytes;
}

}  // namespace larder::client
