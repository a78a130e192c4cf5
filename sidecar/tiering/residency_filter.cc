#include "sidecar/tiering/residency_filter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <string>

#include "sidecar/base/file_limit.h"
#include "sidecar/memory/index_file.h"

namespace larder::tiering {
namespace {

constexpr int kSealFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE, which older headers lack
constexpr std::size_t kKeysAtOnce = 16;

std::uint64_t buckets_for(std::uint64_t tier_bytes) {
  // Half full at most with the smallest usual chunks: a full bucket loses a tag, and engines would
  // not ask for that chunk.
  const std::uint64_t words = 2 * (tier_bytes / memory::kSmallestUsualSlot);
  return std::clamp(std::bit_ceil(words / protocol::kBucketCells + 1),
                    protocol::kLeastResidencyBuckets, protocol::kMostResidencyBuckets);
}

}  // namespace

Result<std::shared_ptr<ResidencyFilter>> ResidencyFilter::create(std::uint64_t tier_bytes) {
  const std::uint64_t buckets = buckets_for(tier_bytes);
  const std::uint64_t bytes = protocol::residency_bytes(buckets);
  // A memfd can be sealed, which a file on tmpfs cannot: no process may shrink a sealed region
  // under a reader (SIGBUS).
  const Fd fd(::memfd_create("larder-below", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::from_errno(errno, "memfd_create for the residency filter");
  if (::fchmod(fd.get(), 0400) != 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return base::file_failure(errno, "size the residency filter");
  Result<Mapping> mapping =
      Mapping::map_shared(fd, bytes, PROT_READ | PROT_WRITE, "residency filter");
  if (!mapping.ok()) return mapping.status();
  // The seals forbid new writable mappings through any descriptor.
  if (::fcntl(fd.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | kSealFutureWrite | F_SEAL_SEAL) != 0)
    return Status::from_errno(errno, "seal the residency filter");
  // Engines get this descriptor. The one from memfd_create() is open for writing, and would stay
  // so in the engine.
  Fd read_only(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only.valid()) return Status::from_errno(errno, "open the residency filter for reading");
  return std::shared_ptr<ResidencyFilter>(
      new ResidencyFilter(std::move(read_only), std::move(*mapping), buckets));
}

ResidencyFilter::ResidencyFilter(Fd read_only, Mapping mapping, std::uint64_t buckets)
    : read_only_(std::move(read_only)),
      mapping_(std::move(mapping)),
      header_(reinterpret_cast<protocol::ResidencyHeader*>(mapping_.data())),
      buckets_(reinterpret_cast<protocol::ResidencyBucket*>(mapping_.data() +
                                                            sizeof(protocol::ResidencyHeader))),
      bucket_count_(buckets) {
  header_->magic = protocol::kResidencyMagic;
  header_->version_major = protocol::kVersionMajor;
  header_->version_minor = protocol::kVersionMinor;
  header_->bucket_count = buckets;
}

protocol::ResidencyPlace ResidencyFilter::place(const tiers::ChunkKey& key) const {
  return protocol::residency_place(key.namespace_id, key.hash, key.shard, key.group, bucket_count_);
}

// Enters a tag in the emptier of the two buckets. No effect if a bucket has the tag already, or if
// both are full.
void ResidencyFilter::enter(const protocol::ResidencyPlace& place) {
  std::array<protocol::AtomicU64*, 2> empty{};
  std::array<int, 2> count{};
  for (std::size_t i = 0; i < 2; ++i) {
    for (protocol::AtomicU64& candidate : buckets_[place.bucket[i]].words) {
      const std::uint64_t word = candidate.load(std::memory_order_relaxed);
      // The filter answers "maybe". Two chunks with one tag share a word, see removed().
      if (word == place.tag) return;
      if (word != 0) continue;
      if (empty[i] == nullptr) empty[i] = &candidate;
      ++count[i];
    }
  }
  protocol::AtomicU64* chosen = count[1] > count[0] ? empty[1] : empty[0];
  if (chosen == nullptr) return;
  // One store of 64 bits: a concurrent reader sees the old word or the new one, never a mixture.
  chosen->store(place.tag, std::memory_order_release);
  ++words_;
}

void ResidencyFilter::added_all(std::span<const tiers::ChunkKey> keys) {
  {
    const std::lock_guard lock(recent_mutex_);
    for (const tiers::ChunkKey& key : keys.last(std::min(keys.size(), recent_.size())))
      recent_[recent_added_++ % recent_.size()] = key;
  }
  // Two steps, so that the cache misses of a batch overlap.
  std::array<protocol::ResidencyPlace, kKeysAtOnce> places;
  while (!keys.empty()) {
    const std::span<const tiers::ChunkKey> batch = keys.first(std::min(keys.size(), kKeysAtOnce));
    keys = keys.subspan(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      places[i] = place(batch[i]);
      for (const std::uint64_t bucket : places[i].bucket) __builtin_prefetch(&buckets_[bucket], 1);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) enter(places[i]);
  }
}

// If two chunks share a tag, the removal of one hides the other: a miss, never a wrong chunk.
void ResidencyFilter::removed(const tiers::ChunkKey& key) {
  const protocol::ResidencyPlace where = place(key);
  for (const std::uint64_t bucket : where.bucket) {
    for (protocol::AtomicU64& word : buckets_[bucket].words) {
      if (word.load(std::memory_order_relaxed) != where.tag) continue;
      word.store(0, std::memory_order_release);
      --words_;
      return;
    }
  }
}

void ResidencyFilter::removed_all() {
  for (std::uint64_t i = 0; i < bucket_count_ && words_ != 0; ++i) {
    for (protocol::AtomicU64& word : buckets_[i].words) {
      if (word.load(std::memory_order_relaxed) == 0) continue;
      word.store(0, std::memory_order_release);
      --words_;
    }
  }
}

void ResidencyFilter::publish(const protocol::ResidencySpeed& speed) {
  header_->read_latency_ns.store(speed.read_latency_ns, std::memory_order_release);
  header_->read_bytes_per_s.store(speed.read_bytes_per_s, std::memory_order_release);
  // Last, with release order: an engine with a view of `serving` also sees the figures.
  header_->serving.store(speed.serving ? 1 : 0, std::memory_order_release);
}

std::span<std::byte> ResidencyFilter::probe_memory(std::size_t bytes) {
  probe_memory_.reset(
      static_cast<std::byte*>(std::aligned_alloc(protocol::kSlotAlignBytes, bytes)));
  return {probe_memory_.get(), probe_memory_ ? bytes : 0};
}

std::optional<tiers::ChunkKey> ResidencyFilter::recent() {
  const std::lock_guard lock(recent_mutex_);
  const std::uint64_t known = std::min<std::uint64_t>(recent_added_, recent_.size());
  if (known == 0) return std::nullopt;
  return recent_[recent_given_++ % known];
}

}  // namespace larder::tiering
