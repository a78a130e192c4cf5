// XXH3-64 of a whole unit, fused with its copy: each 64-byte stripe is loaded once, stored past the caches and accumulated from the
// same register. The steps are those of XXH3_hashLong_64b with the default secret; the constants are xxhash's own.
#include <immintrin.h>

#include "cuda/host_loop.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace larder::copy {
namespace {

constexpr uint64_t kUnitBytes = 4096;
constexpr uint64_t kStripeBytes = 64;
constexpr uint64_t kStripesPerBlock = 16;  // (192 - 64) / 8 stripes until the secret is used up
constexpr uint64_t kBlocks = kUnitBytes / (kStripeBytes * kStripesPerBlock);
constexpr uint64_t kPrefetchBytes = 2048;  // measured: 512 to 4096 do, 2048 is best

__m512i accumulate(__m512i acc, __m512i data, const unsigned char* secret) {
  const __m512i key = _mm512_xor_si512(data, _mm512_loadu_si512(secret));
  const __m512i product = _mm512_mul_epu32(key, _mm512_srli_epi64(key, 32));
  const __m512i swapped = _mm512_shuffle_epi32(data, static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(1, 0, 3, 2)));
  return _mm512_add_epi64(product, _mm512_add_epi64(acc, swapped));
}

__m512i scramble(__m512i acc) {
  const __m512i prime = _mm512_set1_epi64(XXH_PRIME32_1);
  const __m512i mixed =
      _mm512_xor_si512(_mm512_xor_si512(acc, _mm512_srli_epi64(acc, 47)), _mm512_loadu_si512(XXH3_kSecret + 128));
  const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), prime);
  return _mm512_add_epi64(_mm512_mul_epu32(mixed, prime), _mm512_slli_epi64(high, 32));
}

// `next` is the unit that comes after this one. REQUIRES: `to` aligned to 64 bytes.
LARDER_RACES_BY_DESIGN uint64_t copy_unit(unsigned char* to, const unsigned char* from, const unsigned char* next) {
  alignas(64) uint64_t lanes[8] = XXH3_INIT_ACC;
  __m512i acc = _mm512_load_si512(lanes);
  for (uint64_t block = 0; block < kBlocks; ++block) {
    for (uint64_t stripe = 0; stripe < kStripesPerBlock; ++stripe) {
      const uint64_t at = (block * kStripesPerBlock + stripe) * kStripeBytes;
      const unsigned char* ahead =
          at + kPrefetchBytes < kUnitBytes ? from + kPrefetchBytes : next - (kUnitBytes - kPrefetchBytes);
      _mm_prefetch(reinterpret_cast<const char*>(ahead + at), _MM_HINT_T0);
      const __m512i data = _mm512_loadu_si512(from + at);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), data);
      const bool last = at + kStripeBytes == kUnitBytes;  // the last stripe takes the secret's end, 7 bytes back
      acc = accumulate(acc, data, XXH3_kSecret + (last ? 192 - 64 - 7 : stripe * 8));
    }
    if (block + 1 < kBlocks) acc = scramble(acc);
  }
  _mm512_store_si512(lanes, acc);
  return XXH3_mergeAccs(lanes, XXH3_kSecret + 11, kUnitBytes * XXH_PRIME64_1);
}

void copy_piece(void* to, const void* from, uint64_t bytes, uint64_t* digests, const void* next) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  const bool aligned = reinterpret_cast<uintptr_t>(out) % 64 == 0;
  for (; bytes >= kUnitBytes; bytes -= kUnitBytes, out += kUnitBytes, in += kUnitBytes) {
    const unsigned char* after = bytes > kUnitBytes ? in + kUnitBytes : static_cast<const unsigned char*>(next);
    *digests++ = aligned ? copy_unit(out, in, after) : copy_unit_portable(out, in, kUnitBytes);
  }
  if (bytes != 0) *digests = copy_unit_portable(out, in, bytes);
}

void publish() {
  _mm_sfence();
}

}  // namespace

const HostLoop kAvx512Loop{"avx512", copy_piece, publish};

}  // namespace larder::copy
