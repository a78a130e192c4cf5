// bench index: the cost of the store at a million chunks, and the unused part of an arena with
// slots of several sizes.
//
// The index is the file that larderd makes. The sessions have the regions of real engines, and 64
// of them hold 1,024 chunks each. The arena is an untouched address range: slot places are numbers.
// Every round is checked: stored chunks are found, held chunks are still there. Hashes are made
// before the clock starts, because engines send them.
//
// Usage: index_bench [DIRECTORY of the JSON]
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "shim/protocol/index_reader.h"
#include "sidecar/memory/index_file.h"
#include "sidecar/memory/session_memory.h"
#include "sidecar/store/store.h"
#include "tests/bench/report.h"

namespace {

using namespace larder;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kChunks = 1'000'000;
constexpr std::uint32_t kSessions = 64;
constexpr std::uint32_t kHoldsEach = 1024;
constexpr std::size_t kKeysPerMessage = 64;  // a prompt of 16,384 tokens
constexpr int kRounds = 9;
constexpr std::uint64_t kPairsPerRound = 256 * 1024;
constexpr std::uint64_t kMiB = 1ULL << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  return 0;
}

protocol::BlockHash hash_of(std::uint64_t n) {
  const XXH128_hash_t hash = XXH3_128bits(&n, sizeof(n));
  return {hash.low64, hash.high64};
}

// Of the chunks [first, first + hashes.size()).
void fill_hashes(std::span<protocol::BlockHash> hashes, std::uint64_t first) {
  for (protocol::BlockHash& hash : hashes) hash = hash_of(first++);
}

store::NamespaceSpec spec_of(const std::string& fingerprint, std::uint64_t piece_bytes,
                             std::uint32_t pieces) {
  store::NamespaceSpec spec;
  spec.id = protocol::namespace_id(fingerprint);
  spec.fingerprint = std::make_shared<const std::string>(fingerprint);
  spec.groups = {{piece_bytes, pieces, 0}};
  spec.shard_count = 1;
  spec.chunk_tokens = 256;
  return spec;
}

// A store over an index file, and an arena of numbers.
class Box {
 public:
  Box(const std::string& directory, std::uint64_t entries, std::uint64_t arena_bytes)
      : shape_{entries, store::IndexShape::buckets_for(entries), arena_bytes, 1, 1},
        index_(*memory::IndexFile::create(directory + "/index." + std::to_string(entries),
                                          shape_.bytes())),
        store_(std::make_unique<store::Store>(shape_, index_.mapping.data(), nullptr, stats_)),
        reader_(*protocol::IndexReader::open(index_.mapping.data(), shape_.bytes())) {
    store_->set_touched_bytes(arena_bytes);
  }
  ~Box() { std::filesystem::remove(index_.path); }

  void add_session(std::uint32_t number) {
    regions_.push_back(*memory::SessionMemory::create());
    store_->sessions().add(number, regions_.back().region());
  }
  protocol::SessionRegion& region(std::uint32_t number) {
    return *reinterpret_cast<protocol::SessionRegion*>(regions_[number - 1].mapping.data());
  }
  std::uint32_t open(const store::NamespaceSpec& spec) {
    std::string difference;
    return *store_->open_namespace(spec, &difference);
  }
  // Stores chunks as one engine does: RESERVE, then COMMIT. Returns how many were granted.
  std::size_t put(std::uint32_t session, std::uint32_t handle,
                  std::span<const protocol::BlockHash> hashes) {
    grants_.resize(hashes.size());
    store_->reserve(session, {{}, handle, 0, 0}, hashes, grants_);
    std::size_t granted = 0;
    for (const protocol::Grant& grant : grants_) {
      if (grant.status != 0) continue;
      store_->commit(session, {grant.slot, 0, grant.generation, grant.generation});
      ++granted;
    }
    return granted;
  }
  std::optional<protocol::EntryView> find(std::uint32_t handle, std::uint64_t n) const {
    return reader_.find({hash_of(n), handle, 0, 0});
  }
  const stats::Stats& stats() const { return stats_; }
  stats::Stats filled() {
    stats::Stats copy = stats_;
    store_->fill(copy);
    return copy;
  }

  store::Store& store() { return *store_; }
  const protocol::IndexReader& reader() const { return reader_; }
  const store::IndexShape& shape() const { return shape_; }

 private:
  store::IndexShape shape_;
  memory::IndexFile index_;
  stats::Stats stats_;
  std::vector<memory::SessionMemory> regions_;
  std::unique_ptr<store::Store> store_;
  protocol::IndexReader reader_;
  std::vector<protocol::Grant> grants_;
};

bool fail(const char* what) {
  std::fprintf(stderr, "index: %s\n", what);
  return false;
}

// Chunks that engines hold, spread over all present chunks.
class Holds {
 public:
  Holds() : held_(kSessions * kHoldsEach) { held_.clear(); }
  bool announce(Box& box, std::uint32_t handle, std::mt19937_64& random) {
    for (std::uint32_t number = 1; number <= kSessions; ++number) {
      protocol::SessionRegion& region = box.region(number);
      region.holds_used = kHoldsEach;
      for (std::uint32_t i = 0; i < kHoldsEach; ++i) {
        const auto view = box.find(handle, random() % kChunks);
        if (!view) return fail("a chunk to hold is not there");
        region.holds[i].exchange(protocol::make_hold(view->slot, view->generation));
        held_.push_back(*view);
      }
    }
    return true;
  }
  bool all_there(const Box& box) const {
    return std::all_of(held_.begin(), held_.end(), [&](const protocol::EntryView& view) {
      return box.reader().still_committed(view.slot, view.generation);
    });
  }

 private:
  std::vector<protocol::EntryView> held_;
};

// Each chunk used once, in random order: neighbours in the order of use are far apart in memory
// from then on.
void shuffle_uses(Box& box, std::uint32_t handle, std::mt19937_64& random) {
  std::vector<std::uint64_t> order(kChunks);
  for (std::uint64_t n = 0; n < kChunks; ++n) order[n] = n;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::uint64_t n : order)
    if (const auto view = box.find(handle, n)) box.store().touch(view->slot, view->generation);
}

struct Million {
  std::vector<double> pairs_per_s;
  double bytes_per_chunk = 0;
};

// Stores these chunks, by messages of all sessions in turn. False: one was refused.
bool put_round(Box& box, std::uint32_t handle, std::span<const protocol::BlockHash> hashes) {
  for (std::size_t at = 0; at < hashes.size(); at += kKeysPerMessage)
    if (box.put(1 + at / kKeysPerMessage % kSessions, handle,
                hashes.subspan(at, kKeysPerMessage)) != kKeysPerMessage)
      return fail("a chunk was refused");
  return true;
}

bool fill_million(Box& box, std::uint32_t handle, std::span<protocol::BlockHash> hashes) {
  for (std::uint64_t first = 0; first < kChunks; first += hashes.size()) {
    hashes = hashes.first(std::min<std::uint64_t>(hashes.size(), kChunks - first));
    fill_hashes(hashes, first);
    if (!put_round(box, handle, hashes)) return false;
  }
  return box.filled().slots_committed == kChunks ||
         fail("a million chunks were stored and are not all there");
}

bool run_million(const std::string& directory, Million& result) {
  std::mt19937_64 random(1);
  Holds holds;
  std::vector<protocol::BlockHash> hashes(kPairsPerRound);
  const std::uint64_t before = anonymous_bytes();  // the bench's own memory is there already
  Box box(directory, kChunks, kChunks * 8192);
  for (std::uint32_t number = 1; number <= kSessions; ++number) box.add_session(number);
  const std::uint32_t handle = box.open(spec_of("engine: bench index\n", 4096, 1));
  if (!fill_million(box, handle, hashes)) return false;
  shuffle_uses(box, handle, random);
  if (!holds.announce(box, handle, random)) return false;
  std::uint64_t next = kChunks;
  for (int round = -2; round < kRounds; ++round, next += kPairsPerRound) {  // two to warm up
    fill_hashes(hashes, next);
    const std::uint64_t evicted = box.stats().evicted_capacity;
    const auto start = Clock::now();
    if (!put_round(box, handle, hashes)) return false;
    const double took = seconds_since(start);
    if (box.stats().evicted_capacity - evicted + 8192 < kPairsPerRound)
      return fail("fewer chunks were evicted than stored");
    for (std::uint64_t n = next; n < next + kPairsPerRound; ++n)
      if (!box.find(handle, n)) return fail("a chunk that was just stored is not there");
    if (!holds.all_there(box)) return fail("a held chunk was evicted");
    if (round >= 0) result.pairs_per_s.push_back(static_cast<double>(kPairsPerRound) / took);
  }
  const std::uint64_t private_bytes = anonymous_bytes() - before;
  result.bytes_per_chunk =
      static_cast<double>(box.shape().bytes() + private_bytes) / static_cast<double>(kChunks);
  return true;
}

// Taking and giving back slots of an arena with a million slots in use, by the batch. The memory of
// slots to give back is requested ahead, like the store's during eviction.
bool run_alloc(std::vector<double>& alloc_ns) {
  constexpr std::size_t kBatch = 4096, kAhead = 8;
  store::SlotTable table(kChunks);
  store::SlotArena arena(kChunks * 8192, table);
  arena.set_touched_bytes(kChunks * 8192);
  const std::uint32_t size = arena.size_class(8192);
  std::vector<store::SlotArena::Slot> slots;
  for (std::uint64_t n = 0; n < kChunks; ++n) slots.push_back(arena.take(size));
  std::mt19937_64 random(2);
  std::shuffle(slots.begin(), slots.end(), random);
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (std::size_t first = 0; first + kBatch <= slots.size(); first += kBatch) {
      for (std::size_t i = first; i < first + kBatch; ++i) {
        if (i + 2 * kAhead < slots.size()) table.prefetch(slots[i + 2 * kAhead].number);
        if (i + kAhead < slots.size())
          arena.prefetch_place(slots[i + kAhead].number, slots[i + kAhead].offset_bytes);
        arena.give(slots[i].number, slots[i].offset_bytes);
      }
      for (std::size_t i = first; i < first + kBatch; ++i) slots[i] = arena.take(size);
    }
    alloc_ns.push_back(seconds_since(start) * 1e9 / static_cast<double>(kChunks));
    std::shuffle(slots.begin(), slots.end(), random);
  }
  return std::all_of(slots.begin(), slots.end(),
                     [](const auto& slot) { return slot.number != store::kNoSlot; });
}

struct Utilisation {
  double least = 1, mean = 0;
};

// Chunks of the four sizes in turn at random, by the weights of a phase.
class Churn {
 public:
  Churn(Box& box, const std::vector<std::uint32_t>& handles) : box_(box), handles_(handles) {}

  void put_one(const std::vector<int>& weights) {
    std::discrete_distribution<std::size_t> pick(weights.begin(), weights.end());
    const protocol::BlockHash hash = hash_of(next_++);
    box_.put(1, handles_[pick(random_)], std::span(&hash, 1));
  }
  // Until the first chunk has to go. Returns the used part then.
  double fill(const std::vector<int>& weights) {
    while (box_.stats().evicted_capacity + box_.stats().evicted_resized == 0) put_one(weights);
    return used();
  }
  // The arena's content is replaced twelve times. After a third of the replacements no chunk of the
  // phase before is left, and from then on the use is sampled sixteen times each. REQUIRES: full.
  Utilisation run(const std::vector<int>& weights) {
    constexpr int kTurnovers = 12, kProbes = 16;
    Utilisation result;
    int probes = 0;
    for (int part = 0; part < kTurnovers * kProbes; ++part) {
      const std::uint64_t enough =
          box_.stats().chunks_committed + box_.filled().slots_committed / kProbes + 1;
      while (box_.stats().chunks_committed < enough) put_one(weights);
      if (part < kTurnovers * kProbes / 3) continue;
      result.least = std::min(result.least, used());
      result.mean += used();
      ++probes;
    }
    result.mean /= probes;
    return result;
  }

 private:
  double used() {
    return static_cast<double>(box_.filled().used_bytes) /
           static_cast<double>(box_.shape().arena_bytes);
  }

  Box& box_;
  const std::vector<std::uint32_t>& handles_;
  std::mt19937_64 random_{3};
  std::uint64_t next_ = 0;
};

struct Phase {
  const char* name;
  std::vector<int> weights;  // 3, 20, 36, 80 MiB
};

const Phase kPhases[] = {
    {"all four alike", {1, 1, 1, 1}},    {"mostly 3 MiB", {30, 1, 1, 1}},
    {"mostly 80 MiB", {1, 1, 1, 10}},    {"20 and 36 MiB", {0, 1, 1, 0}},
    {"only 80 MiB", {0, 0, 0, 1}},       {"all four alike again", {1, 1, 1, 1}},
    {"alike by bytes", {240, 36, 20, 9}}};

// Adds a row for each phase. Returns the least utilisation of the phases with all four sizes.
double run_mixed(const std::string& directory, std::uint64_t arena_bytes, bench::Report& report) {
  Box box(directory, arena_bytes / (64 << 10), arena_bytes);
  box.add_session(1);
  std::vector<std::uint32_t> handles;
  for (const std::uint64_t mib : {3, 20, 36, 80})
    handles.push_back(box.open(spec_of("chunk: " + std::to_string(mib) + " MiB\n", kMiB / 4,
                                       static_cast<std::uint32_t>(4 * mib))));
  const auto row = [&](const std::string& what, double value, double worst) {
    report.add_row(
        {{"what", "utilisation, " + std::to_string(arena_bytes >> 30) + " GiB, " + what},
         {"value", value},
         {"worst", worst},
         {"evicted_for_another_size", static_cast<double>(box.stats().evicted_resized)}});
  };
  Churn churn(box, handles);
  const double filled = churn.fill(kPhases[0].weights);
  row("when the first chunk goes", filled, filled);
  double least = 1;
  for (const Phase& phase : kPhases) {
    const Utilisation used = churn.run(phase.weights);
    const bool mixed = std::all_of(phase.weights.begin(), phase.weights.end(),
                                   [](int weight) { return weight != 0; });
    if (mixed) least = std::min(least, used.least);
    row(phase.name, used.mean, used.least);
  }
  return least;
}

bool run(const std::string& json_directory, const std::string& scratch) {
  Million million;
  std::vector<double> alloc_ns;
  if (!run_million(scratch, million) || !run_alloc(alloc_ns)) return false;
  bench::Report report("index");
  const auto row = [&](const char* what, double value, double worst) {
    report.add_row({{"what", std::string(what)},
                    {"value", value},
                    {"worst", worst},
                    {"evicted_for_another_size", std::string("-")}});
  };
  row("pairs of insert and evict a second", bench::median(million.pairs_per_s),
      *std::ranges::min_element(million.pairs_per_s));
  row("ns to take a slot and give one back", bench::median(alloc_ns),
      *std::ranges::max_element(alloc_ns));
  row("bytes a chunk", million.bytes_per_chunk, million.bytes_per_chunk);
  double least = 1;
  for (const std::uint64_t gib : {8, 16, 64})
    least = std::min(least, run_mixed(scratch, gib << 30, report));
  report.add_goal("index.pairs_per_s", bench::median(million.pairs_per_s), ">=", 3e6);
  report.add_goal("index.bytes_per_chunk", million.bytes_per_chunk, "<=", 112);
  report.add_goal("index.alloc_ns", bench::median(alloc_ns), "<=", 60);
  report.add_goal("index.utilisation", least, ">=", 0.98);
  return report.finish(json_directory);
}

}  // namespace

int main(int argc, char** argv) {
  char scratch[] = "/dev/shm/larder-bench-XXXXXX";
  if (::mkdtemp(scratch) == nullptr) return 1;
  const bool done = run(argc > 1 ? argv[1] : "build/bench", scratch);
  std::filesystem::remove_all(scratch);
  return done ? 0 : 1;
}
