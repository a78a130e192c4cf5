// The one function of StreamHash that is compiled for AVX2. No header of the standard library may
// be instantiated here: the linker could give an inline function with AVX2 in it to a processor
// without.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shim/client/stream_hash.h"

namespace larder::client {

void update_avx2(void* state, const void* bytes, std::size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace larder::client
