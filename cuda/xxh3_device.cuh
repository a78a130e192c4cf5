// XXH3-64 of one unit of at most 4 KiB, with seed 0 and the default secret, written from xxHash's
// specification because xxhash.h does not compile for a device. Host and device compile the same
// function. tests/cuda/xxh3_device_test.cc compares it with protocol/checksum.h at every length.
//
// All functions read only the bytes that they are given, at any alignment.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define LARDER_DEVICE __host__ __device__ inline
#define LARDER_DEVICE_CALL __host__ __device__ __noinline__ static
#define LARDER_UNROLL _Pragma("unroll")
#else
#define LARDER_DEVICE_CALL inline
#define LARDER_DEVICE inline
#define LARDER_UNROLL
#endif

namespace larder::copy::xxh3 {

constexpr uint64_t kPrime32_1 = 0x9E3779B1U, kPrime32_2 = 0x85EBCA77U, kPrime32_3 = 0xC2B2AE3DU;
constexpr uint64_t kPrime64_1 = 0x9E3779B185EBCA87ULL, kPrime64_2 = 0xC2B2AE3D27D4EB4FULL,
                   kPrime64_3 = 0x165667B19E3779F9ULL, kPrime64_4 = 0x85EBCA77C2B2AE63ULL,
                   kPrime64_5 = 0x27D4EB2F165667C5ULL;
constexpr uint64_t kPrimeMx1 = 0x165667919E3779F9ULL, kPrimeMx2 = 0x9FB21C651E98DF25ULL;

constexpr uint32_t kSecretBytes = 192;
constexpr uint32_t kStripeBytes = 64;
constexpr uint32_t kStripesPerBlock = (kSecretBytes - kStripeBytes) / 8;
constexpr uint32_t kBlockBytes = kStripeBytes * kStripesPerBlock;
constexpr uint32_t kLastStripeSecret = kSecretBytes - kStripeBytes - 7;
constexpr uint32_t kScrambleSecret = kSecretBytes - kStripeBytes;
constexpr uint32_t kMergeSecret = 11;

#define LARDER_XXH3_SECRET                                                                        \
  0xbe4ba423396cfeb8ULL, 0x1cad21f72c81017cULL, 0xdb979083e96dd4deULL, 0x1f67b3b7a4a44072ULL,     \
      0x78e5c0cc4ee679cbULL, 0x2172ffcc7dd05a82ULL, 0x8e2443f7744608b8ULL, 0x4c263a81e69035e0ULL, \
      0xcb00c391bb52283cULL, 0xa32e531b8b65d088ULL, 0x4ef90da297486471ULL, 0xd8acdea946ef1938ULL, \
      0x3f349ce33f76faa8ULL, 0x1d4f0bc7c7bbdcf9ULL, 0x3159b4cd4be0518aULL, 0x647378d9c97e9fc8ULL, \
      0xc3ebd33483acc5eaULL, 0xeb6313faffa081c5ULL, 0x49daf0b751dd0d17ULL, 0x9e68d429265516d3ULL, \
      0xfca1477d58be162bULL, 0xce31d07ad1b8f88fULL, 0x280416958f3acb45ULL, 0x7e404bbbcafbd7afULL
#if defined(__CUDACC__)
__constant__ const uint64_t kDeviceSecret[kSecretBytes / 8] = {LARDER_XXH3_SECRET};
#endif
inline constexpr uint64_t kHostSecret[kSecretBytes / 8] = {LARDER_XXH3_SECRET};

// Eight bytes of the default secret, from any byte on.
LARDER_DEVICE uint64_t secret(uint32_t at) {
#if defined(__CUDA_ARCH__)
  const uint64_t* const words = kDeviceSecret;
#else
  const uint64_t* const words = kHostSecret;
#endif
  const uint32_t word = at / 8, bits = at % 8 * 8;
  return bits == 0 ? words[word] : words[word] >> bits | words[word + 1] << (64 - bits);
}

LARDER_DEVICE uint64_t read_word(const unsigned char* from) {
  uint64_t word = 0;
  LARDER_UNROLL
  for (uint32_t i = 0; i < 8; ++i) word |= static_cast<uint64_t>(from[i]) << (8 * i);
  return word;
}
LARDER_DEVICE uint64_t read_half(const unsigned char* from) {
  uint64_t half = 0;
  LARDER_UNROLL
  for (uint32_t i = 0; i < 4; ++i) half |= static_cast<uint64_t>(from[i]) << (8 * i);
  return half;
}

// One half of the 128-bit product xor the other.
LARDER_DEVICE uint64_t fold(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return a * b ^ __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}

LARDER_DEVICE uint64_t avalanche(uint64_t hash) {
  hash = (hash ^ hash >> 37) * kPrimeMx1;
  return hash ^ hash >> 32;
}

LARDER_DEVICE uint64_t swap_bytes(uint64_t word) {
  uint64_t swapped = 0;
  for (uint32_t i = 0; i < 8; ++i) swapped |= (word >> (8 * i) & 0xff) << (56 - 8 * i);
  return swapped;
}

// ---- One pair of the eight accumulators: 2 * pair and 2 * pair + 1. A stripe changes each pair
// independently.

struct Pair {
  uint64_t even, odd;
};

LARDER_DEVICE Pair initial(uint32_t pair) {
  switch (pair) {
    case 0: return {kPrime32_3, kPrime64_1};
    case 1: return {kPrime64_2, kPrime64_3};
    case 2: return {kPrime64_4, kPrime32_2};
    default: return {kPrime64_5, kPrime32_1};
  }
}

LARDER_DEVICE Pair secret_pair(uint32_t at, uint32_t pair) {
  return {secret(at + 16 * pair), secret(at + 16 * pair + 8)};
}

// Within a block the accumulators are sums: stripes may be added in any order and separately.
LARDER_DEVICE void accumulate(Pair& sum, Pair data, Pair key) {
  const uint64_t even = data.even ^ key.even, odd = data.odd ^ key.odd;
  sum.even += data.odd + (even & 0xffffffffU) * (even >> 32);
  sum.odd += data.even + (odd & 0xffffffffU) * (odd >> 32);
}

LARDER_DEVICE void scramble(Pair& sum, Pair key) {
  sum.even = (sum.even ^ sum.even >> 47 ^ key.even) * kPrime32_1;
  sum.odd = (sum.odd ^ sum.odd >> 47 ^ key.odd) * kPrime32_1;
}

// The digest is the avalanche of `bytes` * kPrime64_1 plus the shares of the four pairs.
LARDER_DEVICE uint64_t share(Pair sum, Pair key) {
  return fold(sum.even ^ key.even, sum.odd ^ key.odd);
}

// ---- A unit in one thread, by classes of length.

LARDER_DEVICE uint64_t digest_1_to_16(const unsigned char* from, uint32_t bytes) {
  if (bytes > 8) {
    const uint64_t low = read_word(from) ^ secret(24) ^ secret(32);
    const uint64_t high = read_word(from + bytes - 8) ^ secret(40) ^ secret(48);
    return avalanche(bytes + swap_bytes(low) + high + fold(low, high));
  }
  if (bytes >= 4) {
    uint64_t hash =
        (read_half(from + bytes - 4) + (read_half(from) << 32)) ^ secret(8) ^ secret(16);
    hash ^= (hash << 49 | hash >> 15) ^ (hash << 24 | hash >> 40);
    hash *= kPrimeMx2;
    hash ^= (hash >> 35) + bytes;
    hash *= kPrimeMx2;
    return hash ^ hash >> 28;
  }
  const uint64_t combined =
      static_cast<uint64_t>(from[0]) << 16 | static_cast<uint64_t>(from[bytes / 2]) << 24 |
      static_cast<uint64_t>(from[bytes - 1]) | static_cast<uint64_t>(bytes) << 8;
  uint64_t hash = combined ^ ((secret(0) ^ secret(0) >> 32) & 0xffffffffU);
  hash = (hash ^ hash >> 33) * kPrime64_2;
  hash = (hash ^ hash >> 29) * kPrime64_3;
  return hash ^ hash >> 32;
}

LARDER_DEVICE uint64_t mix_16(const unsigned char* from, uint32_t secret_at) {
  return fold(read_word(from) ^ secret(secret_at), read_word(from + 8) ^ secret(secret_at + 8));
}

LARDER_DEVICE uint64_t digest_17_to_128(const unsigned char* from, uint32_t bytes) {
  uint64_t sum = bytes * kPrime64_1;
  for (uint32_t i = 0; i <= (bytes - 1) / 32; ++i)
    sum += mix_16(from + 16 * i, 32 * i) + mix_16(from + bytes - 16 * (i + 1), 32 * i + 16);
  return avalanche(sum);
}

LARDER_DEVICE uint64_t digest_129_to_240(const unsigned char* from, uint32_t bytes) {
  uint64_t sum = bytes * kPrime64_1;
  for (uint32_t i = 0; i < 8; ++i) sum += mix_16(from + 16 * i, 16 * i);
  sum = avalanche(sum);
  for (uint32_t i = 8; i < bytes / 16; ++i) sum += mix_16(from + 16 * i, 16 * (i - 8) + 3);
  return avalanche(sum + mix_16(from + bytes - 16, 136 - 17));
}

LARDER_DEVICE void accumulate_stripe(Pair* sums, const unsigned char* from, uint32_t secret_at) {
  for (uint32_t pair = 0; pair < 4; ++pair)
    accumulate(sums[pair], {read_word(from + 16 * pair), read_word(from + 16 * pair + 8)},
               secret_pair(secret_at, pair));
}

LARDER_DEVICE uint64_t digest_long(const unsigned char* from, uint32_t bytes) {
  Pair sums[4] = {initial(0), initial(1), initial(2), initial(3)};
  // The last stripe comes separately and may overlap these.
  const uint32_t stripes = (bytes - 1) / kStripeBytes;
  for (uint32_t stripe = 0; stripe < stripes; ++stripe) {
    accumulate_stripe(sums, from + stripe * kStripeBytes, stripe % kStripesPerBlock * 8);
    if ((stripe + 1) % kStripesPerBlock != 0) continue;
    for (uint32_t pair = 0; pair < 4; ++pair)
      scramble(sums[pair], secret_pair(kScrambleSecret, pair));
  }
  accumulate_stripe(sums, from + bytes - kStripeBytes, kLastStripeSecret);
  uint64_t hash = bytes * kPrime64_1;
  for (uint32_t pair = 0; pair < 4; ++pair)
    hash += share(sums[pair], secret_pair(kMergeSecret, pair));
  return avalanche(hash);
}

// REQUIRES: 1 to 4096 bytes.
LARDER_DEVICE_CALL uint64_t unit_digest(const unsigned char* from, uint32_t bytes) {
  if (bytes <= 16) return digest_1_to_16(from, bytes);
  if (bytes <= 128) return digest_17_to_128(from, bytes);
  if (bytes <= 240) return digest_129_to_240(from, bytes);
  return digest_long(from, bytes);
}

}  // namespace larder::copy::xxh3
