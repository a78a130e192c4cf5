// The work of one warp of the copy kernels: moves units between pieces and a packed payload, and
// digests the stored values.
//
// Why a kernel digests at the speed of its loads: XXH3's accumulators are sums within a block of 1
// KiB. So 32 lanes take 16 bytes each of two rows, and shuffles add their parts. Only the four
// scrambles of a unit are serial. Units that are no multiple of 1 KiB, or not aligned to 16 bytes,
// go bytewise through shared memory, which is correct but slow.
//
// One source serves host and device. A Warp runs a step for each of its 32 lanes (`each`) and adds
// over the lanes between steps. On a device a lane is a thread, and shuffles add. HostWarp runs the
// lanes one after the other: tests/cuda/move_pieces_test.cc uses HostWarp to test indices, tails
// and sums without a GPU, and tests/cuda/fake_driver runs HostWarp in place of the kernels.
#pragma once

#include "cuda/xxh3_device.cuh"

namespace larder::copy {

// The parameter of all kernels. All addresses are the device's.
struct MoveJob {
  const uint64_t* pieces;  // addresses of the pieces; 0: left out
  unsigned char* packed;   // the pieces in order
  // One for each unit of each piece. Digests of pieces that are left out keep their value.
  uint64_t* digests;
  uint64_t piece_bytes;
  uint64_t piece_count;
};

enum class Move {
  kGather,   // pieces to packed
  kScatter,  // packed to pieces
  kDigest,   // pieces stay in place
};

constexpr uint32_t kLanes = 32;
constexpr uint32_t kWarpsPerBlock = 8;
constexpr uint32_t kUnitBytes = 4096;
// The bytes that all lanes load at once: eight stripes.
constexpr uint32_t kRowBytes = 16 * kLanes;
constexpr uint32_t kRows = kUnitBytes / kRowBytes;
constexpr uint32_t kStripesPerRow = kRowBytes / xxh3::kStripeBytes;
static_assert(2 * kStripesPerRow == xxh3::kStripesPerBlock);

// Lane n works on bytes 16 * n and following of each row. The lane works on accumulators 2 * (n %
// 4) and the next, and on stripe n / 4 of the eight in the row.
struct Lane {
  uint32_t number;
  xxh3::Pair keys[2];  // for the first and the second row of a block
  xxh3::Pair last_key, scramble_key, merge_key;
  xxh3::Pair rows[kRows];
  xxh3::Pair sum;   // of all blocks so far; equal in the eight lanes of a pair
  xxh3::Pair part;  // of this lane alone, before the addition
};

LARDER_DEVICE void start_lane(Lane& lane, uint32_t number) {
  const uint32_t pair = number % 4, stripe = number / 4;
  lane.number = number;
  lane.keys[0] = xxh3::secret_pair(8 * stripe, pair);
  lane.keys[1] = xxh3::secret_pair(8 * (stripe + kStripesPerRow), pair);
  lane.last_key = stripe + 1 == kStripesPerRow ? xxh3::secret_pair(xxh3::kLastStripeSecret, pair)
                                               : lane.keys[1];
  lane.scramble_key = xxh3::secret_pair(xxh3::kScrambleSecret, pair);
  lane.merge_key = xxh3::secret_pair(xxh3::kMergeSecret, pair);
}

// Exactly one load, whatever the compiler does: the slot may change meanwhile, and the hash must be
// of the stored value.
LARDER_DEVICE xxh3::Pair load_16(const unsigned char* from) {
  xxh3::Pair data;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.global.cs.v2.u64 {%0, %1}, [%2];"
               : "=l"(data.even), "=l"(data.odd)
               : "l"(from)
               : "memory");
#else
  __builtin_memcpy(&data.even, from, 8);
  __builtin_memcpy(&data.odd, from + 8, 8);
#endif
  return data;
}

LARDER_DEVICE void store_16(unsigned char* to, xxh3::Pair data) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(data.even), "l"(data.odd)
               : "memory");
#else
  __builtin_memcpy(to, &data.even, 8);
  __builtin_memcpy(to + 8, &data.odd, 8);
#endif
}

// Moves a unit of 1 to 4 whole blocks, all in registers. `to` may be nullptr. REQUIRES: both
// addresses are aligned to 16 bytes.
template <typename Warp>
LARDER_DEVICE void move_blocks(Warp& warp, unsigned char* to, const unsigned char* from,
                               uint32_t blocks, uint64_t* digest) {
  warp.each([&](Lane& lane) {
    LARDER_UNROLL
    for (uint32_t row = 0; row < kRows; ++row)
      if (row < 2 * blocks) lane.rows[row] = load_16(from + row * kRowBytes + 16 * lane.number);
    lane.sum = xxh3::initial(lane.number % 4);
  });
  LARDER_UNROLL
  for (uint32_t block = 0; block < kRows / 2; ++block) {
    if (block >= blocks) break;
    const bool last = block + 1 == blocks;
    warp.each([&](Lane& lane) {
      if (to != nullptr) {
        store_16(to + 2 * block * kRowBytes + 16 * lane.number, lane.rows[2 * block]);
        store_16(to + (2 * block + 1) * kRowBytes + 16 * lane.number, lane.rows[2 * block + 1]);
      }
      lane.part = {0, 0};
      xxh3::accumulate(lane.part, lane.rows[2 * block], lane.keys[0]);
      xxh3::accumulate(lane.part, lane.rows[2 * block + 1], last ? lane.last_key : lane.keys[1]);
    });
    warp.add_stripes();
    warp.each([&](Lane& lane) {
      lane.sum.even += lane.part.even;
      lane.sum.odd += lane.part.odd;
      if (!last) xxh3::scramble(lane.sum, lane.scramble_key);
    });
  }
  warp.each([&](Lane& lane) { lane.part = {xxh3::share(lane.sum, lane.merge_key), 0}; });
  warp.add_pairs();
  warp.each([&](Lane& lane) {
    if (lane.number == 0)
      *digest = xxh3::avalanche(blocks * xxh3::kBlockBytes * xxh3::kPrime64_1 + lane.part.even);
  });
}

// Moves any unit, through the warp's buffer.
template <typename Warp>
LARDER_DEVICE void move_bytes(Warp& warp, unsigned char* to, const unsigned char* from,
                              uint32_t bytes, uint64_t* digest) {
  unsigned char* const buffer = warp.buffer();
  warp.each([&](Lane& lane) {
    for (uint32_t at = lane.number; at < bytes; at += kLanes)
      buffer[at] = *static_cast<const volatile unsigned char*>(from + at);
  });
  warp.sync();
  warp.each([&](Lane& lane) {
    if (to != nullptr)
      for (uint32_t at = lane.number; at < bytes; at += kLanes) to[at] = buffer[at];
    if (lane.number == 0) *digest = xxh3::unit_digest(buffer, bytes);
  });
  warp.sync();
}

// The share of warp `first` of `warps`: units first, first + warps, first + 2 * warps and so on.
template <Move kMove, typename Warp>
LARDER_DEVICE void move_pieces(Warp& warp, const MoveJob& job, uint64_t first, uint64_t warps) {
  const uint64_t units = (job.piece_bytes + kUnitBytes - 1) / kUnitBytes;
  const uint64_t all = units * job.piece_count;
  warp.each([&](Lane& lane) { start_lane(lane, lane.number); });
  // The list lies in host memory, so the address of the next piece is fetched during the move of
  // this unit.
  uint64_t next = first < all ? job.pieces[first / units] : 0;
  for (uint64_t unit = first; unit < all; unit += warps) {
    const uint64_t piece = unit / units, at = unit % units * kUnitBytes, address = next;
    if (unit + warps < all) next = job.pieces[(unit + warps) / units];
    if (address == 0) continue;
    unsigned char* const in_piece = reinterpret_cast<unsigned char*>(address) + at;
    unsigned char* const in_packed = job.packed + piece * job.piece_bytes + at;
    unsigned char* const to = kMove == Move::kGather    ? in_packed
                              : kMove == Move::kScatter ? in_piece
                                                        : nullptr;
    const unsigned char* const from = kMove == Move::kScatter ? in_packed : in_piece;
    const uint32_t bytes = static_cast<uint32_t>(
        job.piece_bytes - at < kUnitBytes ? job.piece_bytes - at : kUnitBytes);
    const bool aligned =
        (reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from)) % 16 == 0;
    if (aligned && bytes % xxh3::kBlockBytes == 0)
      move_blocks(warp, to, from, bytes / xxh3::kBlockBytes, job.digests + unit);
    else
      move_bytes(warp, to, from, bytes, job.digests + unit);
  }
}

// Runs its lanes one after the other.
class HostWarp {
 public:
  HostWarp() {
    for (uint32_t number = 0; number < kLanes; ++number) lanes_[number].number = number;
  }
  template <typename Step>
  void each(Step step) {
    for (Lane& lane : lanes_) step(lane);
  }
  void sync() {}
  unsigned char* buffer() { return buffer_; }
  // Adds over the stripes: lanes with equal number % 4.
  void add_stripes() {
    for (uint32_t distance = 4; distance < kLanes; distance *= 2) add(distance);
  }
  void add_pairs() {
    for (uint32_t distance = 1; distance < 4; distance *= 2) add(distance);
  }

 private:
  void add(uint32_t distance) {
    xxh3::Pair before[kLanes];
    for (uint32_t number = 0; number < kLanes; ++number) before[number] = lanes_[number].part;
    for (uint32_t number = 0; number < kLanes; ++number) {
      lanes_[number].part.even += before[number ^ distance].even;
      lanes_[number].part.odd += before[number ^ distance].odd;
    }
  }
  Lane lanes_[kLanes];
  unsigned char buffer_[kUnitBytes];
};

}  // namespace larder::copy
