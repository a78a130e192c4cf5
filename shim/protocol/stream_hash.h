// StreamHash: XXH3-128 of bytes that come piece by piece. Thread-compatible; does not allocate.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace larder::protocol {

class StreamHash {
 public:
  using Digest = std::array<std::uint8_t, 16>;

  StreamHash() { XXH3_128bits_reset(&state_); }

  void update(const void* bytes, std::size_t size) { XXH3_128bits_update(&state_, bytes, size); }

  // Of all bytes until now; the canonical form of xxHash, high byte first, as `xxh128sum` prints it.
  Digest digest() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_));
    Digest bytes;
    std::copy(std::begin(canonical.digest), std::end(canonical.digest), bytes.begin());
    return bytes;
  }

 private:
  XXH3_state_t state_;
};

}  // namespace larder::protocol
