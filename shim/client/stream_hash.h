// StreamHash: XXH3-128 of bytes that come piece by piece, by the widest vectors of this processor.
// Thread-compatible; does not allocate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace larder::client {

// Takes `size` more bytes into an XXH3_state_t. One for each instruction set, in an object file of
// its own; all give equal states.
using HashUpdate = void (*)(void* state, const void* bytes, std::size_t size);
void update_portable(void* state, const void* bytes, std::size_t size);
void update_avx2(void* state, const void* bytes,
                 std::size_t size);  // x86-64 only. REQUIRES: a processor with AVX2
HashUpdate best_update();

class StreamHash {
 public:
  using Digest = std::array<std::uint8_t, 16>;

  explicit StreamHash(HashUpdate kind = best_update());

  void update(const void* bytes, std::size_t size) { update_(state_, bytes, size); }

  // Of all bytes until now; the canonical form of xxHash, high byte first, as `xxh128sum` prints
  // it.
  Digest digest() const;

 private:
  static constexpr std::size_t kStateBytes = 640;  // an XXH3_state_t has room in it: stream_hash.cc
  const HashUpdate update_;
  alignas(64) std::byte state_[kStateBytes];
};

}  // namespace larder::client
