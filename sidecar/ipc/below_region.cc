#include "sidecar/ipc/below_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <string>

#include "sidecar/ipc/small_regions.h"

namespace larder::ipc {
namespace {

constexpr int kSealFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE, which older headers lack

std::uint64_t buckets_for(std::uint64_t tier_bytes) {
  const std::uint64_t words = 2 * (tier_bytes / kSmallestUsualSlot);
  return std::clamp(std::bit_ceil(words / protocol::kBucketCells + 1), protocol::kLeastBelowBuckets, protocol::kMostBelowBuckets);
}

}  // namespace

Result<std::shared_ptr<BelowRegion>> BelowRegion::create(std::uint64_t tier_bytes) {
  const std::uint64_t buckets = buckets_for(tier_bytes);
  const std::uint64_t bytes = protocol::below_bytes(buckets);
  const Fd fd(::memfd_create("larder-below", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::from_errno(errno, "memfd_create for the below region");
  if (::fchmod(fd.get(), 0400) != 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return Status::from_errno(errno, "size the below region");
  Result<Mapping> mapping = Mapping::map_shared(fd, bytes, PROT_READ | PROT_WRITE, "below region");
  if (!mapping.ok()) return mapping.status();
  // From here on nobody else may write to it, whichever descriptor he has.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | kSealFutureWrite | F_SEAL_SEAL) != 0)
    return Status::from_errno(errno, "seal the below region");
  Fd read_only(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only.valid()) return Status::from_errno(errno, "open the below region for reading");
  return std::shared_ptr<BelowRegion>(new BelowRegion(std::move(read_only), std::move(*mapping), buckets));
}

BelowRegion::BelowRegion(Fd read_only, Mapping mapping, std::uint64_t buckets)
    : read_only_(std::move(read_only)),
      mapping_(std::move(mapping)),
      header_(reinterpret_cast<protocol::BelowHeader*>(mapping_.data())),
      buckets_(reinterpret_cast<protocol::BelowBucket*>(mapping_.data() + sizeof(protocol::BelowHeader))),
      bucket_count_(buckets) {
  header_->magic = protocol::kBelowMagic;
  header_->version_major = protocol::kVersionMajor;
  header_->version_minor = protocol::kVersionMinor;
  header_->bucket_count = buckets;
}

protocol::BelowPlace BelowRegion::place(const tiers::ChunkKey& key) const {
  return protocol::below_place(key.namespace_id, key.hash, key.shard, key.group, bucket_count_);
}

// Where this word stands; 0: an empty place, in the bucket that has more of them.
protocol::AtomicU64* BelowRegion::find(const protocol::BelowPlace& place, std::uint64_t word) {
  std::array<protocol::AtomicU64*, 2> first{};
  std::array<int, 2> count{};
  for (std::size_t i = 0; i < 2; ++i) {
    for (protocol::AtomicU64& candidate : buckets_[place.bucket[i]].words) {
      if (candidate.load(std::memory_order_relaxed) != word) continue;
      if (first[i] == nullptr) first[i] = &candidate;
      ++count[i];
    }
  }
  return count[1] > count[0] ? first[1] : first[0];
}

void BelowRegion::added(const tiers::ChunkKey& key) {
  {
    const std::lock_guard lock(recent_mutex_);
    recent_[recent_added_++ % recent_.size()] = key;
  }
  const protocol::BelowPlace where = place(key);
  if (find(where, where.tag) != nullptr) return;
  protocol::AtomicU64* empty = find(where, 0);
  if (empty == nullptr) return;  // both buckets are full: not announced
  empty->store(where.tag, std::memory_order_release);
  ++words_;
}

void BelowRegion::removed(const tiers::ChunkKey& key) {
  const protocol::BelowPlace where = place(key);
  protocol::AtomicU64* word = find(where, where.tag);
  if (word == nullptr) return;
  word->store(0, std::memory_order_release);
  --words_;
}

void BelowRegion::removed_all() {
  for (std::uint64_t i = 0; i < bucket_count_ && words_ != 0; ++i) {
    for (protocol::AtomicU64& word : buckets_[i].words) {
      if (word.load(std::memory_order_relaxed) == 0) continue;
      word.store(0, std::memory_order_release);
      --words_;
    }
  }
}

void BelowRegion::publish(const protocol::BelowSpeed& speed) {
  header_->read_latency_ns.store(speed.read_latency_ns, std::memory_order_release);
  header_->read_bytes_per_s.store(speed.read_bytes_per_s, std::memory_order_release);
  header_->serving.store(speed.serving ? 1 : 0, std::memory_order_release);
}

std::span<std::byte> BelowRegion::probe_memory(std::size_t bytes) {
  probe_memory_.reset(static_cast<std::byte*>(std::aligned_alloc(protocol::kSlotAlignBytes, bytes)));
  return {probe_memory_.get(), probe_memory_ ? bytes : 0};
}

std::optional<tiers::ChunkKey> BelowRegion::recent() {
  const std::lock_guard lock(recent_mutex_);
  const std::uint64_t known = std::min<std::uint64_t>(recent_added_, recent_.size());
  if (known == 0) return std::nullopt;
  return recent_[recent_given_++ % known];
}

}  // namespace larder::ipc
