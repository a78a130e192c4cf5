// XXH3-64 of a whole unit, fused with its copy. Each 64-byte stripe is loaded once, stored past the
// caches, and accumulated from the same registers. The steps are those of XXH3_hashLong_64b with
// the default secret; the constants come from xxhash.
//
// Non-temporal stores save reading the destination into the cache, and one pass saves reading the
// source twice. On an AMD EPYC of 2 cores with batches of 64 MiB, memcpy followed by XXH3 reaches 7
// GB/s, and this loop 14 GB/s. The same loop in AVX-512 was 2% slower there, because memory is the
// limit. `make bench-copy` compares all loops.
#include <immintrin.h>

#include "cuda/host_loop.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace larder::copy {
namespace {

constexpr uint64_t kUnitBytes = 4096;
constexpr uint64_t kStripeBytes = 64;
constexpr uint64_t kStripesPerBlock = 16;  // (192 - 64) / 8 stripes use up the secret
constexpr uint64_t kBlocks = kUnitBytes / (kStripeBytes * kStripesPerBlock);
constexpr uint64_t kPrefetchBytes = 2048;

__m256i accumulate(__m256i acc, __m256i data, const unsigned char* secret) {
  const __m256i key =
      _mm256_xor_si256(data, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(secret)));
  const __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
  const __m256i swapped = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(product, _mm256_add_epi64(acc, swapped));
}

__m256i scramble(__m256i acc, const unsigned char* secret) {
  const __m256i prime = _mm256_set1_epi64x(XXH_PRIME32_1);
  const __m256i shifted = _mm256_xor_si256(acc, _mm256_srli_epi64(acc, 47));
  const __m256i mixed =
      _mm256_xor_si256(shifted, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(secret)));
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
  return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
}

// Stores past the caches. malloc aligns to 16 bytes, torch to 64.
template <int kAlignment>
LARDER_RACES_BY_DESIGN inline void stream(unsigned char* to, __m256i data) {
  if (kAlignment == 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), data);
  } else {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(data));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + 16), _mm256_extracti128_si256(data, 1));
  }
}

// `next` is the unit after this one. REQUIRES: `to` is aligned to kAlignment, 16 or 32.
template <int kAlignment>
LARDER_RACES_BY_DESIGN uint64_t copy_unit(unsigned char* to, const unsigned char* from,
                                          const unsigned char* next) {
  alignas(64) uint64_t lanes[8] = XXH3_INIT_ACC;
  __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes));
  __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes + 4));
  for (uint64_t block = 0; block < kBlocks; ++block) {
    for (uint64_t stripe = 0; stripe < kStripesPerBlock; ++stripe) {
      const uint64_t at = (block * kStripesPerBlock + stripe) * kStripeBytes;
      const unsigned char* ahead = at + kPrefetchBytes < kUnitBytes
                                       ? from + kPrefetchBytes
                                       : next - (kUnitBytes - kPrefetchBytes);
      _mm_prefetch(reinterpret_cast<const char*>(ahead + at), _MM_HINT_T0);
      const __m256i data0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
      const __m256i data1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + 32));
      stream<kAlignment>(to + at, data0);
      stream<kAlignment>(to + at + 32, data1);
      // The last stripe uses the end of the secret, 7 bytes back.
      const bool last = at + kStripeBytes == kUnitBytes;
      const unsigned char* secret = XXH3_kSecret + (last ? 192 - 64 - 7 : stripe * 8);
      low = accumulate(low, data0, secret);
      high = accumulate(high, data1, secret + 32);
    }
    if (block + 1 == kBlocks) break;
    low = scramble(low, XXH3_kSecret + 128);
    high = scramble(high, XXH3_kSecret + 160);
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes + 4), high);
  return XXH3_mergeAccs(lanes, XXH3_kSecret + 11, kUnitBytes * XXH_PRIME64_1);
}

void copy_piece(void* to, const void* from, uint64_t bytes, uint64_t* digests, const void* next) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  const uintptr_t misaligned = reinterpret_cast<uintptr_t>(out) % 32;
  for (; bytes >= kUnitBytes; bytes -= kUnitBytes, out += kUnitBytes, in += kUnitBytes) {
    const unsigned char* after =
        bytes > kUnitBytes ? in + kUnitBytes : static_cast<const unsigned char*>(next);
    if (misaligned == 0)
      *digests++ = copy_unit<32>(out, in, after);
    else if (misaligned == 16)
      *digests++ = copy_unit<16>(out, in, after);
    else
      *digests++ = copy_unit_portable(out, in, kUnitBytes);
  }
  if (bytes != 0) *digests = copy_unit_portable(out, in, bytes);
}

// Stores past the caches too: fetching the table's cache lines only to overwrite them costs 1% of a
// store.
LARDER_RACES_BY_DESIGN void copy_words(void* to, const uint64_t* from, uint64_t words) {
  auto* out = static_cast<long long*>(to);
  for (uint64_t i = 0; i < words; ++i) _mm_stream_si64(out + i, static_cast<long long>(from[i]));
}

void publish() {
  _mm_sfence();
}

}  // namespace

const HostLoop kAvx2Loop{"avx2", copy_piece, copy_words, publish};

}  // namespace larder::copy
