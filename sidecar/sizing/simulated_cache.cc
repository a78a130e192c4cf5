#include "sidecar/sizing/simulated_cache.h"

#include <array>
#include <deque>
#include <list>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sidecar/sizing/adaptive_cache.h"

namespace larder::sizing {
namespace {

// Chunks leave in the order of their first store.
class FifoCache final : public SimulatedCache {
 public:
  explicit FifoCache(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  bool has(std::uint64_t chunk) const override { return bytes_.contains(chunk); }
  void use(std::uint64_t, std::uint64_t) override {}
  bool insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t) override {
    if (bytes > size_bytes_) return false;
    for (; used_bytes_ + bytes > size_bytes_; order_.pop_front()) {
      const auto first = bytes_.find(order_.front());
      used_bytes_ -= first->second;
      bytes_.erase(first);
    }
    used_bytes_ += bytes;
    bytes_[chunk] = bytes;
    order_.push_back(chunk);
    return true;
  }

 private:
  const std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::deque<std::uint64_t> order_;  // first to go first
  std::unordered_map<std::uint64_t, std::uint64_t> bytes_;
};

// Each chunk of a request goes directly below the chunk before it, the first chunk to the warm end.
class PromptLru final : public SimulatedCache {
 public:
  explicit PromptLru(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  void begin() override {
    above_ = order_.end();
    ++request_;
  }
  bool has(std::uint64_t chunk) const override { return places_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t) override {
    const Order::iterator place = places_.at(chunk);
    order_.splice(above_, order_, place);
    place->request = request_;
    above_ = place;
  }
  bool insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t) override {
    if (bytes > size_bytes_) return false;
    for (; used_bytes_ + bytes > size_bytes_; order_.pop_front()) {
      if (order_.front().request == request_) return false;
      used_bytes_ -= order_.front().bytes;
      places_.erase(order_.front().chunk);
    }
    used_bytes_ += bytes;
    above_ = places_[chunk] = order_.insert(above_, {chunk, bytes, request_});
    return true;
  }

 private:
  struct Chunk {
    std::uint64_t chunk, bytes, request;  // the last request
  };
  using Order = std::list<Chunk>;  // first to go first
  const std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0, request_ = 0;
  Order order_;
  Order::iterator above_ = order_.end();
  std::unordered_map<std::uint64_t, Order::iterator> places_;
};

// Evicts the chunk with the latest next use (Belady), and of several with one next use the deepest
// in the prompt. No policy does better for chunks of one size. A bound for comparison: no real
// cache knows the future.
class Optimal final : public SimulatedCache {
 public:
  explicit Optimal(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  void begin() override { depth_ = 0; }
  bool has(std::uint64_t chunk) const override { return chunks_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t next) override {
    Chunk& known = chunks_.at(chunk);
    by_next_.erase({known.next, known.depth, chunk});
    known.next = next;
    known.depth = depth_++;
    by_next_.emplace(next, known.depth, chunk);
  }
  bool insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t next) override {
    // A chunk without a next use would only take the place of one with a use.
    if (bytes > size_bytes_ || next == kNever) return false;
    chunks_[chunk] = {bytes, next, depth_};
    by_next_.emplace(next, depth_++, chunk);
    used_bytes_ += bytes;
    while (used_bytes_ > size_bytes_) {
      const auto last = std::prev(by_next_.end());
      const std::uint64_t victim = std::get<2>(*last);
      used_bytes_ -= chunks_.at(victim).bytes;
      chunks_.erase(victim);
      by_next_.erase(last);
      if (victim == chunk) return false;
    }
    return true;
  }

 private:
  struct Chunk {
    std::uint64_t bytes, next, depth;
  };
  const std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0, depth_ = 0;
  std::unordered_map<std::uint64_t, Chunk> chunks_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> by_next_;
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
  bool insert(std::uint64_t chunk, std::uint64_t bytes, std::uint64_t) override {
    if (bytes > size_bytes_) return false;
    while (small_.bytes + main_.bytes + bytes > size_bytes_) evict();
    // A ghost came back soon after it left: the small queue was too short for it.
    Fifo& to = ghosts_.contains(chunk) ? main_ : small_;
    push(to, chunk, bytes);
    chunks_[chunk] = {bytes, 0};
    return true;
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

constexpr std::array<std::string_view, 5> kPolicies{"lru", "adaptive", "fifo", "s3-fifo",
                                                    "optimal"};

}  // namespace

std::span<const std::string_view> policies() {
  return kPolicies;
}

Result<std::unique_ptr<SimulatedCache>> make_cache(std::string_view policy,
                                                   std::uint64_t size_bytes) {
  std::unique_ptr<SimulatedCache> cache;
  if (policy == "lru") cache = std::make_unique<PromptLru>(size_bytes);
  if (policy == "adaptive") cache = std::make_unique<AdaptiveCache>(size_bytes);
  if (policy == "fifo") cache = std::make_unique<FifoCache>(size_bytes);
  if (policy == "s3-fifo") cache = std::make_unique<S3Fifo>(size_bytes);
  if (policy == "optimal") cache = std::make_unique<Optimal>(size_bytes);
  if (cache == nullptr)
    return Status(
        Code::kInvalidArgument,
        "'" + std::string(policy) + "' is no policy: lru, adaptive, fifo, s3-fifo, optimal");
  return cache;
}

}  // namespace larder::sizing
