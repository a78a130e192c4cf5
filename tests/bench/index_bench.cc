// bench index: what the store costs at a million chunks, and how much of an arena slots of several sizes leave unused.
//
// The index is the file that larderd makes, the sessions have the regions that engines get, and 64 of them hold 1,024 chunks each.
// The arena is an address range that nobody touches: slot places are numbers. Every round is checked: what was stored is found, what
// is held is still there.
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
#include <string>
#include <vector>

#include "shim/protocol/index_reader.h"
#include "sidecar/ipc/small_regions.h"
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

store::NamespaceSpec spec_of(const std::string& fingerprint, std::uint64_t piece_bytes, std::uint32_t pieces) {
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
        index_(*ipc::IndexFile::create(directory + "/index." + std::to_string(entries), shape_.bytes())),
        store_(std::make_unique<store::Store>(shape_, index_.mapping.data(), nullptr, stats_)),
        reader_(*protocol::IndexReader::open(index_.mapping.data(), shape_.bytes())) {
    store_->set_touched_bytes(arena_bytes);
  }
  ~Box() { std::filesystem::remove(index_.path); }

  void add_session(std::uint32_t number) {
    regions_.push_back(*ipc::SessionMemory::create());
    store_->add_session(number, regions_.back().region());
  }
  protocol::SessionRegion& region(std::uint32_t number) {
    return *reinterpret_cast<protocol::SessionRegion*>(regions_[number - 1].mapping.data());
  }
  std::uint32_t open(const store::NamespaceSpec& spec) {
    std::string difference;
    return *store_->open_namespace(spec, &difference);
  }
  // Stores the chunks [first, first + count) as one engine does: RESERVE, then COMMIT. Returns how many were granted.
  std::size_t put(std::uint32_t session, std::uint32_t handle, std::uint64_t first, std::size_t count) {
    hashes_.resize(count);
    grants_.resize(count);
    for (std::size_t i = 0; i < count; ++i) hashes_[i] = hash_of(first + i);
    return put_hashes(session, handle);
  }
  std::size_t put_hashes(std::uint32_t session, std::uint32_t handle) {
    store_->reserve(session, {{}, handle, 0, 0}, hashes_, grants_);
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
  ipc::IndexFile index_;
  stats::Stats stats_;
  std::vector<ipc::SessionMemory> regions_;
  std::unique_ptr<store::Store> store_;
  protocol::IndexReader reader_;
  std::vector<protocol::BlockHash> hashes_;
  std::vector<protocol::Grant> grants_;
};

bool fail(const char* what) {
  std::fprintf(stderr, "index: %s\n", what);
  return false;
}

// Chunks that engines hold, spread over all that are there.
class Holds {
 public:
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
    return std::all_of(held_.begin(), held_.end(),
                       [&](const protocol::EntryView& view) { return box.reader().still_committed(view.slot, view.generation); });
  }

 private:
  std::vector<protocol::EntryView> held_;
};

// Each chunk used once, in random order: neighbours in the order of use are strangers in memory from then on.
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

bool run_million(const std::string& directory, Million& result) {
  const std::uint64_t before = anonymous_bytes();
  std::mt19937_64 random(1);
  Box box(directory, kChunks, kChunks * 8192);
  for (std::uint32_t number = 1; number <= kSessions; ++number) box.add_session(number);
  const std::uint32_t handle = box.open(spec_of("engine: bench index\n", 4096, 1));
  for (std::uint64_t first = 0; first < kChunks; first += kKeysPerMessage) box.put(1, handle, first, kKeysPerMessage);
  if (const std::uint64_t there = box.filled().slots_committed; there != kChunks) {
    std::fprintf(stderr, "index: %llu chunks of a million are there, %llu were refused\n", static_cast<unsigned long long>(there),
                 static_cast<unsigned long long>(box.filled().refused_no_space));
    return false;
  }
  shuffle_uses(box, handle, random);
  Holds holds;
  if (!holds.announce(box, handle, random)) return false;
  std::uint64_t next = kChunks;
  std::vector<std::uint64_t> firsts;
  for (int round = -2; round < kRounds; ++round) {  // two to warm up
    const std::uint64_t first = next;
    const std::uint64_t evicted = box.filled().evicted_capacity;
    const auto start = Clock::now();
    for (; next < first + kPairsPerRound; next += kKeysPerMessage)
      if (box.put(1 + next / kKeysPerMessage % kSessions, handle, next, kKeysPerMessage) != kKeysPerMessage)
        return fail("a chunk was refused");
    const double took = seconds_since(start);
    const std::uint64_t fresh = box.filled().evicted_capacity - evicted;
    if (fresh + 8192 < kPairsPerRound) return fail("fewer chunks were evicted than stored");
    for (std::uint64_t n = first; n < next; ++n)
      if (!box.find(handle, n)) return fail("a chunk that was just stored is not there");
    if (!holds.all_there(box)) return fail("a held chunk was evicted");
    if (round >= 0) result.pairs_per_s.push_back(static_cast<double>(kPairsPerRound) / took);
  }
  const std::uint64_t private_bytes = anonymous_bytes() - before;
  result.bytes_per_chunk = static_cast<double>(box.shape().bytes() + private_bytes) / static_cast<double>(kChunks);
  return true;
}

// Taking and giving back slots of an arena in which a million are in use, by the batch.
bool run_alloc(std::vector<double>& alloc_ns) {
  constexpr std::size_t kBatch = 4096;
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
      for (std::size_t i = first; i < first + kBatch; ++i) arena.give(slots[i].number, slots[i].offset_bytes);
      for (std::size_t i = first; i < first + kBatch; ++i) slots[i] = arena.take(size);
    }
    alloc_ns.push_back(seconds_since(start) * 1e9 / static_cast<double>(kChunks));
    std::shuffle(slots.begin(), slots.end(), random);
  }
  return std::all_of(slots.begin(), slots.end(), [](const auto& slot) { return slot.number != store::kNoSlot; });
}

struct Utilisation {
  double least = 1, mean = 0;
};

// Chunks of the four sizes in turn at random, with the weights of the phase; looked at after each turnover of the arena.
Utilisation churn(Box& box, const std::vector<std::uint32_t>& handles, const std::vector<int>& weights, std::uint64_t& next) {
  constexpr int kTurnovers = 12;
  std::mt19937_64 random(next);
  std::discrete_distribution<std::size_t> pick(weights.begin(), weights.end());
  const double arena_bytes = static_cast<double>(box.shape().arena_bytes);
  Utilisation result;
  int looks = 0;
  for (int turn = 0; turn < kTurnovers; ++turn) {
    const std::uint64_t before = box.filled().chunks_committed;
    const std::uint64_t chunks = std::max<std::uint64_t>(box.filled().slots_committed, 64);
    while (box.filled().chunks_committed < before + chunks) box.put(1, handles[pick(random)], next++, 1);
    if (turn < kTurnovers / 3) continue;  // the phase before it is still there
    const double used = static_cast<double>(box.filled().used_bytes) / arena_bytes;
    result.least = std::min(result.least, used);
    result.mean += used;
    ++looks;
  }
  result.mean /= looks;
  return result;
}

struct Phase {
  const char* name;
  std::vector<int> weights;  // 3, 20, 36, 80 MiB
};

const Phase kPhases[] = {{"all four alike", {1, 1, 1, 1}},    {"mostly 3 MiB", {30, 1, 1, 1}},
                         {"mostly 80 MiB", {1, 1, 1, 10}},    {"20 and 36 MiB", {0, 1, 1, 0}},
                         {"only 80 MiB", {0, 0, 0, 1}},       {"all four alike again", {1, 1, 1, 1}},
                         {"alike by bytes", {240, 36, 20, 9}}};

// Adds a row for each phase. Returns the least utilisation of those in which all four sizes take part.
double run_mixed(const std::string& directory, std::uint64_t arena_bytes, bench::Report& report) {
  Box box(directory, arena_bytes / (64 << 10), arena_bytes);
  box.add_session(1);
  std::vector<std::uint32_t> handles;
  for (const std::uint64_t mib : {3, 20, 36, 80})
    handles.push_back(
        box.open(spec_of("chunk: " + std::to_string(mib) + " MiB\n", kMiB / 4, static_cast<std::uint32_t>(4 * mib))));
  double least = 1;
  std::uint64_t next = 0;
  for (const Phase& phase : kPhases) {
    const Utilisation used = churn(box, handles, phase.weights, next);
    const bool mixed = std::all_of(phase.weights.begin(), phase.weights.end(), [](int weight) { return weight != 0; });
    if (mixed) least = std::min(least, used.least);
    report.add_row({{"what", "utilisation, " + std::to_string(arena_bytes >> 30) + " GiB, " + phase.name},
                    {"value", used.mean},
                    {"worst", used.least},
                    {"evicted_for_another_size", static_cast<double>(box.filled().evicted_resized)}});
  }
  return least;
}

bool run(const std::string& json_directory, const std::string& scratch) {
  Million million;
  std::vector<double> alloc_ns;
  if (!run_million(scratch, million) || !run_alloc(alloc_ns)) return false;
  bench::Report report("index");
  const auto row = [&](const char* what, double value, double worst) {
    report.add_row(
        {{"what", std::string(what)}, {"value", value}, {"worst", worst}, {"evicted_for_another_size", std::string("-")}});
  };
  row("pairs of insert and evict a second", bench::median(million.pairs_per_s), *std::ranges::min_element(million.pairs_per_s));
  row("ns to take a slot and give one back", bench::median(alloc_ns), *std::ranges::max_element(alloc_ns));
  row("bytes a chunk", million.bytes_per_chunk, million.bytes_per_chunk);
  double least = 1;
  for (const std::uint64_t gib : {8, 16, 64}) least = std::min(least, run_mixed(scratch, gib << 30, report));
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
