#include "sidecar/sizing/simulated_cache.h"

#include <array>
#include <deque>
#include <list>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace larder::sizing {
namespace {

// One queue. lru moves a used chunk to the end; fifo leaves the chunk in its place.
class Queue final : public SimulatedCache {
 public:
  Queue(std::uint64_t size_bytes, bool by_use) : size_bytes_(size_bytes), by_use_(by_use) {}

  bool has(std::uint64_t chunk) const override { return places_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t) override {
    if (by_use_) order_.splice(order_.end(), order_, places_.at(chunk));
  }
  void insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t) override {
    if (bytes > size_bytes_) return;
    while (used_bytes_ + bytes > size_bytes_) {
      used_bytes_ -= order_.front().second;
      places_.erase(order_.front().first);
      order_.pop_front();
    }
    used_bytes_ += bytes;
    places_[chunk] = order_.insert(order_.end(), {chunk, bytes});
  }

 private:
  using Order =
      std::list<std::pair<std::uint64_t, std::uint64_t>>;  // chunk and bytes, first to go first
  const std::uint64_t size_bytes_;
  const bool by_use_;
  std::uint64_t used_bytes_ = 0;
  Order order_;
  std::unordered_map<std::uint64_t, Order::iterator> places_;
};

// Evicts the chunk with the latest next use (Belady). No policy does better for chunks of one size.
// A bound for comparison: no real cache knows the future.
class Optimal final : public SimulatedCache {
 public:
  explicit Optimal(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  bool has(std::uint64_t chunk) const override { return chunks_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t next) override {
    Chunk& known = chunks_.at(chunk);
    by_next_.erase({known.next, chunk});
    known.next = next;
    by_next_.emplace(next, chunk);
  }
  void insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t next) override {
    // A chunk without a next use would only take the place of one with a use.
    if (bytes > size_bytes_ || next == kNever) return;
    chunks_[chunk] = {bytes, next};
    by_next_.emplace(next, chunk);
    used_bytes_ += bytes;
    while (used_bytes_ > size_bytes_) {
      const auto last = std::prev(by_next_.end());
      used_bytes_ -= chunks_.at(last->second).bytes;
      chunks_.erase(last->second);
      by_next_.erase(last);
    }
  }

 private:
  struct Chunk {
    std::uint64_t bytes, next;
  };
  const std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::unordered_map<std::uint64_t, Chunk> chunks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_next_;
};

// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP
// 2023). A small queue of a tenth of the size has new chunks. A main queue has chunks that were
// used in the small queue or came back soon. Ghosts are the names of chunks that left the small
// queue.
class S3Fifo final : public SimulatedCache {
 public:
  explicit S3Fifo(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  bool has(std::uint64_t chunk) const override { return chunks_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t) override {
    int& uses = chunks_.at(chunk).uses;
    uses = std::min(uses + 1, kMostUses);
  }
  void insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t) override {
    if (bytes > size_bytes_) return;
    while (small_.bytes + main_.bytes + bytes > size_bytes_) evict();
    // A ghost came back soon after it left: the small queue was too short for it.
    Fifo& to = ghosts_.contains(chunk) ? main_ : small_;
    push(to, chunk, bytes);
    chunks_[chunk] = {bytes, 0};
  }

 private:
  static constexpr int kMostUses = 3;
  static constexpr std::uint64_t kSmallShare = 10;
  struct Chunk {
    std::uint64_t bytes;
    int uses;
  };
  struct Fifo {
    std::deque<std::uint64_t> chunks;
    std::uint64_t bytes = 0;
  };

  static void push(Fifo& fifo, std::uint64_t chunk, std::uint64_t bytes) {
    fifo.chunks.push_back(chunk);
    fifo.bytes += bytes;
  }
  std::uint64_t pop(Fifo& fifo) {
    const std::uint64_t chunk = fifo.chunks.front();
    fifo.chunks.pop_front();
    fifo.bytes -= chunks_.at(chunk).bytes;
    return chunk;
  }
  // Takes one chunk from a queue: into the main queue, to the end of the main queue, or out of the
  // cache.
  void evict() {
    const bool from_small = small_.bytes * kSmallShare > size_bytes_ || main_.chunks.empty();
    const std::uint64_t chunk = pop(from_small ? small_ : main_);
    Chunk& known = chunks_.at(chunk);
    if (from_small ? known.uses > 1 : known.uses > 0) {
      known.uses = from_small ? 0 : known.uses - 1;
      return push(main_, chunk, known.bytes);
    }
    if (from_small) remember(chunk);
    chunks_.erase(chunk);
  }
  // Keeps as many names as the main queue has chunks.
  void remember(std::uint64_t chunk) {
    if (ghosts_.insert(chunk).second) ghost_order_.push_back(chunk);
    while (ghost_order_.size() > main_.chunks.size() + 1) {
      ghosts_.erase(ghost_order_.front());
      ghost_order_.pop_front();
    }
  }

  const std::uint64_t size_bytes_;
  std::unordered_map<std::uint64_t, Chunk> chunks_;
  Fifo small_, main_;
  std::unordered_set<std::uint64_t> ghosts_;
  std::deque<std::uint64_t> ghost_order_;
};

constexpr std::array<std::string_view, 4> kPolicies{"lru", "fifo", "s3-fifo", "optimal"};

}  // namespace

std::span<const std::string_view> policies() {
  return kPolicies;
}

Result<std::unique_ptr<SimulatedCache>> make_cache(std::string_view policy,
                                                   std::uint64_t size_bytes) {
  std::unique_ptr<SimulatedCache> cache;
  if (policy == "lru" || policy == "fifo")
    cache = std::make_unique<Queue>(size_bytes, policy == "lru");
  if (policy == "s3-fifo") cache = std::make_unique<S3Fifo>(size_bytes);
  if (policy == "optimal") cache = std::make_unique<Optimal>(size_bytes);
  if (cache == nullptr)
    return Status(Code::kInvalidArgument,
                  "'" + std::string(policy) + "' is no policy: lru, fifo, s3-fifo, optimal");
  return cache;
}

}  // namespace larder::sizing
