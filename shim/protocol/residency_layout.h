// The residency filter: the chunks of the tiers below memory, and their read speed. Written by the
// sidecar, mapped read-only by engines, read without a lock and without a message.
//
//   0     ResidencyHeader                 4096 bytes
//   4096  ResidencyBucket[bucket_count]   64 bytes each; bucket_count is a power of two
//
// A chunk is in one of two buckets as one word, its tag; 0 is an empty place. Words are written one
// at a time, so a reader beside the writer, or after the writer's death, sees a chunk or does not.
// The filter is a hint: a chunk may be gone, and two chunks may share a tag (once in 2^60); a FETCH
// then brings fewer chunks than hoped. A chunk with two full buckets is not in the filter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/base/status.h"
#include "shim/protocol/index_layout.h"
#include "shim/protocol/version.h"

namespace larder::protocol {

inline constexpr std::uint64_t kResidencyMagic = 0x314f4c454252414cULL;  // "LARBELO1"
inline constexpr std::uint64_t kLeastResidencyBuckets = 1 << 10;
inline constexpr std::uint64_t kMostResidencyBuckets = 1 << 22;  // 256 MiB, 16 million chunks

struct ResidencyHeader {
  std::uint64_t magic;
  std::uint32_t version_major;
  std::uint32_t version_minor;
  std::uint64_t bucket_count;
  AtomicU64 serving;           // 1: the tier takes reads, and answered the last ones in time
  AtomicU64 read_latency_ns;   // from a small FETCH to its bytes in memory; measured
  AtomicU64 read_bytes_per_s;  // measured
  std::uint8_t reserved[4048];
};
static_assert(sizeof(ResidencyHeader) == 4096 && offsetof(ResidencyHeader, reserved) == 48);

struct ResidencyBucket {
  AtomicU64 words[kBucketCells];
};
static_assert(sizeof(ResidencyBucket) == 64);

constexpr std::uint64_t residency_bytes(std::uint64_t bucket_count) {
  return sizeof(ResidencyHeader) + bucket_count * sizeof(ResidencyBucket);
}

// The two buckets of a chunk, and its tag.
struct ResidencyPlace {
  std::uint64_t bucket[2];  // may be equal
  std::uint64_t tag;
};

// REQUIRES: bucket_count is a power of two, at most 2^32.
inline ResidencyPlace residency_place(const NamespaceId& id, const BlockHash& hash,
                                      std::uint16_t shard, std::uint16_t group,
                                      std::uint64_t bucket_count) {
  const std::uint64_t words[] = {
      id.lo, id.hi, hash.lo, hash.hi,
      static_cast<std::uint64_t>(shard) | static_cast<std::uint64_t>(group) << 16};
  const XXH128_hash_t mixed = XXH3_128bits(words, sizeof(words));
  const std::uint64_t mask = bucket_count - 1;
  return {{mixed.low64 & mask, mixed.low64 >> 32 & mask}, mixed.high64 | 1};
}

// The figures of the header at one moment.
struct ResidencySpeed {
  bool serving = false;
  std::uint64_t read_latency_ns = 0;
  std::uint64_t read_bytes_per_s = 0;
};

// ResidencyReader: look-ups in a mapped residency filter. Thread-safe for any number of readers
// beside the one writer; no allocation, no system call. The mapping belongs to the caller and
// outlives the reader.
class ResidencyReader {
 public:
  ResidencyReader() = default;

  // Validates the header of a mapped region of size_bytes.
  static Result<ResidencyReader> open(const std::byte* data, std::size_t size_bytes) {
    if (size_bytes < sizeof(ResidencyHeader))
      return Status(Code::kDataLoss, "residency filter: shorter than its header");
    const auto* header = reinterpret_cast<const ResidencyHeader*>(data);
    if (header->magic != kResidencyMagic)
      return Status(Code::kDataLoss, "residency filter: wrong magic");
    if (header->version_major != kVersionMajor)
      return Status(Code::kUnsupported, "residency filter: unknown major version");
    const std::uint64_t buckets = header->bucket_count;
    if (buckets < kLeastResidencyBuckets || buckets > kMostResidencyBuckets ||
        (buckets & (buckets - 1)) != 0 || residency_bytes(buckets) > size_bytes)
      return Status(Code::kDataLoss, "residency filter: impossible bucket count");
    ResidencyReader reader;
    reader.header_ = header;
    reader.buckets_ = reinterpret_cast<const ResidencyBucket*>(data + sizeof(ResidencyHeader));
    reader.bucket_count_ = buckets;
    return reader;
  }

  bool valid() const { return header_ != nullptr; }

  // Two steps, so the cache misses of a batch overlap: place() prefetches the memory, has() reads
  // it.
  ResidencyPlace place(const NamespaceId& id, const BlockHash& hash, std::uint16_t shard,
                       std::uint16_t group) const {
    const ResidencyPlace place = residency_place(id, hash, shard, group, bucket_count_);
    for (const std::uint64_t bucket : place.bucket) __builtin_prefetch(&buckets_[bucket]);
    return place;
  }
  bool has(const ResidencyPlace& place) const {
    for (const std::uint64_t bucket : place.bucket)
      for (const AtomicU64& word : buckets_[bucket].words)
        if (word.load(std::memory_order_acquire) == place.tag) return true;
    return false;
  }

  ResidencySpeed speed() const {
    return {header_->serving.load(std::memory_order_acquire) == 1,
            header_->read_latency_ns.load(std::memory_order_acquire),
            header_->read_bytes_per_s.load(std::memory_order_acquire)};
  }

 private:
  const ResidencyHeader* header_ = nullptr;
  const ResidencyBucket* buckets_ = nullptr;
  std::uint64_t bucket_count_ = 0;
};

}  // namespace larder::protocol
