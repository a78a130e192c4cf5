#include "tests/bench/eviction_rivals.h"

#include <algorithm>
#include <array>
#include <list>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace larder::bench {
namespace {

using Names = std::list<std::uint64_t>;

// Evicts the chunk with the fewest uses, of several the one used least recently. With aging:
// GD-freq (Cherkasova: "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching
// Policy", HP 1998). There uses count from the level of the last victim on.
class FrequencyCache final : public sizing::SimulatedCache {
 public:
  FrequencyCache(std::uint64_t chunks, bool aging) : most_(chunks), aging_(aging) {}

  bool has(std::uint64_t chunk) const override { return chunks_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t) override {
    Chunk& known = chunks_.at(chunk);
    order_.erase({known.level, known.used, chunk});
    enter(chunk, known.uses + 1);
  }
  bool insert(std::uint64_t chunk, std::uint64_t, std::uint64_t) override {
    if (chunks_.size() >= most_) {
      const auto first = order_.begin();
      if (aging_) floor_ = std::get<0>(*first);
      chunks_.erase(std::get<2>(*first));
      order_.erase(first);
    }
    enter(chunk, 1);
    return true;
  }

 private:
  struct Chunk {
    std::uint64_t level, used, uses;
  };
  void enter(std::uint64_t chunk, std::uint64_t uses) {
    chunks_[chunk] = {floor_ + uses, ++clock_, uses};
    order_.emplace(floor_ + uses, clock_, chunk);
  }

  const std::uint64_t most_;
  const bool aging_;
  std::uint64_t clock_ = 0, floor_ = 0;
  std::unordered_map<std::uint64_t, Chunk> chunks_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> order_;
};

// SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is Simpler than LRU", NSDI 2024). A hand moves
// from the oldest chunk to the newest, and evicts the first one that was not used since its last
// visit.
class Sieve final : public sizing::SimulatedCache {
 public:
  explicit Sieve(std::uint64_t chunks) : most_(chunks) {}

  bool has(std::uint64_t chunk) const override { return places_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t) override { places_.at(chunk)->used = true; }
  bool insert(std::uint64_t chunk, std::uint64_t, std::uint64_t) override {
    if (places_.size() >= most_) evict();
    order_.push_back({chunk, false});
    places_[chunk] = std::prev(order_.end());
    return true;
  }

 private:
  struct Chunk {
    std::uint64_t chunk;
    bool used;
  };
  void evict() {
    for (;; ++hand_) {
      if (hand_ == order_.end()) hand_ = order_.begin();
      if (!hand_->used) break;
      hand_->used = false;
    }
    places_.erase(hand_->chunk);
    hand_ = order_.erase(hand_);
  }

  const std::uint64_t most_;
  std::list<Chunk> order_;  // the oldest first
  std::list<Chunk>::iterator hand_ = order_.end();
  std::unordered_map<std::uint64_t, std::list<Chunk>::iterator> places_;
};

// ARC (Megiddo, Modha: "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003), with the
// names of the paper: t1 and t2 are chunks used once and more often, b1 and b2 names of evicted
// ones, p the wanted size of t1.
class Arc final : public sizing::SimulatedCache {
 public:
  explicit Arc(std::uint64_t chunks) : c_(chunks) {}

  bool has(std::uint64_t chunk) const override {
    const auto known = places_.find(chunk);
    return known != places_.end() && known->second.list <= kT2;
  }
  void use(std::uint64_t chunk, std::uint64_t) override { move(chunk, kT2); }
  bool insert(std::uint64_t chunk, std::uint64_t, std::uint64_t) override {
    if (const auto known = places_.find(chunk); known != places_.end()) {
      const bool of_b2 = known->second.list == kB2;
      const double ratio = of_b2 ? size(kB1) / size(kB2) : size(kB2) / size(kB1);
      p_ = std::clamp(p_ + (of_b2 ? -1 : 1) * std::max(1.0, ratio), 0.0, static_cast<double>(c_));
      if (full()) replace(of_b2);
      move(chunk, kT2);
      return true;
    }
    if (lists_[kT1].size() + lists_[kB1].size() >= c_) {
      if (lists_[kT1].size() < c_) {
        drop(kB1);
        if (full()) replace(false);
      } else {
        drop(kT1);
      }
    } else if (full()) {
      if (places_.size() >= 2 * c_) drop(kB2);
      replace(false);
    }
    lists_[kT1].push_back(chunk);
    places_[chunk] = {kT1, std::prev(lists_[kT1].end())};
    return true;
  }

 private:
  enum Which : std::size_t { kT1, kT2, kB1, kB2 };
  struct Place {
    Which list;
    Names::iterator at;
  };
  double size(Which list) const { return static_cast<double>(lists_[list].size()); }
  bool full() const { return lists_[kT1].size() + lists_[kT2].size() >= c_; }
  void move(std::uint64_t chunk, Which to) {
    Place& place = places_.at(chunk);
    lists_[to].splice(lists_[to].end(), lists_[place.list], place.at);
    place = {to, std::prev(lists_[to].end())};
  }
  void drop(Which list) {
    places_.erase(lists_[list].front());
    lists_[list].pop_front();
  }
  void replace(bool of_b2) {
    const bool from_t1 = !lists_[kT1].empty() &&
                         (size(kT1) > p_ || (of_b2 && size(kT1) >= p_) || lists_[kT2].empty());
    const Which from = from_t1 ? kT1 : kT2;
    move(lists_[from].front(), from_t1 ? kB1 : kB2);
  }

  const std::uint64_t c_;
  double p_ = 0;
  std::array<Names, 4> lists_;  // least recently used first
  std::unordered_map<std::uint64_t, Place> places_;
};

// W-TinyLFU (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission Policy",
// 2017). A window of a hundredth, then a segmented LRU with four fifths protected. A chunk from the
// window takes the place of the main part's victim only if it was used more often. A count-min
// sketch counts the uses, and is halved from time to time.
class TinyLfu final : public sizing::SimulatedCache {
 public:
  explicit TinyLfu(std::uint64_t chunks)
      : most_(chunks), window_(std::max<std::uint64_t>(chunks / 100, 1)) {
    while (row_ < 2 * chunks) row_ *= 2;
    counts_.resize(kRows * row_);
  }

  bool has(std::uint64_t chunk) const override { return places_.contains(chunk); }
  void use(std::uint64_t chunk, std::uint64_t) override {
    see(chunk);
    const Which of = places_.at(chunk).list;
    move(chunk, of == kWindow ? kWindow : kProtected);
    if (lists_[kProtected].size() > (most_ - window_) * 4 / 5)
      move(lists_[kProtected].front(), kProbation);
  }
  bool insert(std::uint64_t chunk, std::uint64_t, std::uint64_t) override {
    see(chunk);
    lists_[kWindow].push_back(chunk);
    places_[chunk] = {kWindow, std::prev(lists_[kWindow].end())};
    if (lists_[kWindow].size() <= window_ && places_.size() <= most_) return true;
    const std::uint64_t candidate = lists_[kWindow].front();
    if (places_.size() <= most_) return move(candidate, kProbation), true;
    const Which from = lists_[kProbation].empty() ? kProtected : kProbation;
    if (lists_[from].empty()) return drop(candidate), true;
    const std::uint64_t victim = lists_[from].front();
    if (count(candidate) <= count(victim)) return drop(candidate), true;
    drop(victim);
    move(candidate, kProbation);
    return true;
  }

 private:
  enum Which : std::size_t { kWindow, kProbation, kProtected };
  struct Place {
    Which list;
    Names::iterator at;
  };
  static constexpr std::size_t kRows = 4;
  static constexpr std::uint8_t kMost = 15;
  static constexpr std::uint64_t kHalveAfter = 10;  // uses a place

  void move(std::uint64_t chunk, Which to) {
    Place& place = places_.at(chunk);
    lists_[to].splice(lists_[to].end(), lists_[place.list], place.at);
    place = {to, std::prev(lists_[to].end())};
  }
  void drop(std::uint64_t chunk) {
    const Place place = places_.at(chunk);
    lists_[place.list].erase(place.at);
    places_.erase(chunk);
  }
  std::uint8_t& cell(std::uint64_t chunk, std::size_t row) {
    const std::uint64_t mixed = (chunk + row * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    return counts_[row * row_ + ((mixed ^ mixed >> 31) & (row_ - 1))];
  }
  std::uint8_t count(std::uint64_t chunk) {
    std::uint8_t least = kMost;
    for (std::size_t row = 0; row < kRows; ++row) least = std::min(least, cell(chunk, row));
    return least;
  }
  void see(std::uint64_t chunk) {
    const std::uint8_t least = count(chunk);
    for (std::size_t row = 0; least < kMost && row < kRows; ++row)
      if (cell(chunk, row) == least) ++cell(chunk, row);
    if (++seen_ < kHalveAfter * most_) return;
    for (std::uint8_t& one : counts_) one /= 2;
    seen_ /= 2;
  }

  const std::uint64_t most_, window_;
  std::uint64_t row_ = 64, seen_ = 0;
  std::vector<std::uint8_t> counts_;
  std::array<Names, 3> lists_;  // least recently used first
  std::unordered_map<std::uint64_t, Place> places_;
};

constexpr std::array<std::string_view, 8> kRivals{"lru",   "fifo", "s3-fifo", "lfu",
                                                  "sieve", "arc",  "tinylfu", "gd-freq"};

}  // namespace

std::span<const std::string_view> rivals() {
  return kRivals;
}

std::unique_ptr<sizing::SimulatedCache> make_rival(std::string_view name, std::uint64_t chunks) {
  if (name == "lfu") return std::make_unique<FrequencyCache>(chunks, false);
  if (name == "gd-freq") return std::make_unique<FrequencyCache>(chunks, true);
  if (name == "sieve") return std::make_unique<Sieve>(chunks);
  if (name == "arc") return std::make_unique<Arc>(chunks);
  if (name == "tinylfu") return std::make_unique<TinyLfu>(chunks);
  return *sizing::make_cache(name, chunks);
}

}  // namespace larder::bench
