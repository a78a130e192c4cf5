// corruption [COUNT [SEED]]: damages COUNT chunks in arena or index, each in one of the ways of
// damage.h, and loads each through the shim. Every load must be a miss. A successful load fails the
// run; a load with a wrong byte is reported as such.
//
// Default: 30,000 with a fixed seed; with CRASH_SUITE=whole 1,000,000 with a random seed. Prints
// the seed, the count of each kind, the rejected share, and the number of distinct damaged bytes of
// arena and index. Between rounds undamaged chunks are loaded and must be right: otherwise a miss
// would prove nothing.
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "tests/corruption/damage.h"

namespace {

using namespace larder;
using namespace larder::corruption;
using Outcome = StoredChunks::Outcome;

// Whole pages, and pieces of odd sizes whose last unit is short.
constexpr Shape kShapes[] = {{4096, 2, 1}, {1001, 3, 2}, {5000, 1, 2}};
constexpr std::uint64_t kSmallCount = 30'000, kWholeCount = 1'000'000;
constexpr std::uint64_t kSmallSeed = 20261121;
constexpr std::uint64_t kControlEvery = 64;  // rounds

struct Tally {
  std::uint64_t tried[kKinds] = {};
  std::uint64_t places = 0;
  std::uint64_t rejected = 0;
  std::uint64_t controls = 0;
  std::uint64_t bad_reports = 0;
  std::uint64_t failures = 0;
};

class Run {
 public:
  Run(const Shape& shape, std::uint64_t seed, Tally& tally)
      : seed_(seed),
        random_(seed),
        chunks_(shape),
        tally_(tally),
        hit_(chunks_.place_count()),
        order_(StoredChunks::kChunks) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  void damage(std::uint64_t count) {
    for (std::uint64_t round = 0; count > 0; ++round) {
      const auto size =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(count, StoredChunks::kAtOnce));
      one_round(size);
      count -= size;
      if (round % kControlEvery == 0) control(StoredChunks::kAtOnce);
    }
    for (std::uint32_t i = 0; i < StoredChunks::kChunks / StoredChunks::kAtOnce; ++i) {
      control(StoredChunks::kAtOnce);
      std::rotate(order_.begin(), order_.begin() + StoredChunks::kAtOnce, order_.end());
    }
    tally_.places += static_cast<std::uint64_t>(std::count(hit_.begin(), hit_.end(), true));
  }

 private:
  // Moves `count` random chunks to the front of the order.
  void draw(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      std::swap(order_[i], order_[i + random_() % (order_.size() - i)]);
  }

  // Each damaged chunk has a partner of its own.
  void one_round(std::uint32_t size) {
    draw(2 * size);
    std::vector<std::uint32_t> loaded(order_.begin(), order_.begin() + size);
    std::vector<Kind> kinds;
    std::vector<Damage> damages;
    damages.reserve(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      kinds.push_back(static_cast<Kind>(random_() % kKinds));
      damages.emplace_back(chunks_, random_).apply(kinds[i], loaded[i], order_[size + i]);
      ++tally_.tried[static_cast<std::size_t>(kinds[i])];
      for (const std::size_t place : damages[i].places()) hit_[place] = true;
      if (damages[i].places().empty()) fail(kinds[i], loaded[i], "changed nothing");
    }
    const std::vector<Outcome> outcomes = chunks_.load_all(loaded);
    for (std::uint32_t i = 0; i < size; ++i) {
      tally_.rejected += outcomes[i] == Outcome::kMiss;
      if (outcomes[i] == Outcome::kWrong) fail(kinds[i], loaded[i], "gave a WRONG BYTE");
      if (outcomes[i] == Outcome::kRight) fail(kinds[i], loaded[i], "was not noticed");
    }
    while (!damages.empty()) {
      damages.back().undo();
      damages.pop_back();
    }
    tally_.bad_reports += chunks_.take_bad_reports();
  }

  void control(std::uint32_t count) {
    const std::vector<std::uint32_t> loaded(order_.begin(), order_.begin() + count);
    for (const Outcome outcome : chunks_.load_all(loaded)) {
      ++tally_.controls;
      if (outcome != Outcome::kRight)
        fail(Kind::kCount, loaded[0], "an undamaged chunk did not load");
    }
  }

  void fail(Kind kind, std::uint32_t chunk, const char* what) {
    if (++tally_.failures > 20) return;
    const std::string_view name = kind == Kind::kCount ? "control" : name_of(kind);
    std::printf("FAILED: %.*s of chunk %u %s (seed %llu)\n", static_cast<int>(name.size()),
                name.data(), chunk, what, static_cast<unsigned long long>(seed_));
  }

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  StoredChunks chunks_;
  Tally& tally_;
  std::vector<bool> hit_;
  std::vector<std::uint32_t> order_;
};

std::uint64_t number(const char* text) {
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

// covers F-117
int main(int argc, char** argv) {
  const char* const crash = std::getenv("CRASH_SUITE");
  const bool whole = crash != nullptr && std::string_view(crash) == "whole";
  const std::uint64_t count = argc > 1 ? number(argv[1]) : whole ? kWholeCount : kSmallCount;
  const std::uint64_t seed = argc > 2            ? number(argv[2])
                             : argc > 1 || whole ? std::random_device()()
                                                 : kSmallSeed;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Tally tally;
  const std::uint64_t shapes = std::size(kShapes);
  for (std::uint64_t i = 0; i < shapes; ++i)
    Run(kShapes[i], seed + i, tally).damage(count * (i + 1) / shapes - count * i / shapes);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const std::string_view name = name_of(static_cast<Kind>(kind));
    std::printf("%16.*s %9llu\n", static_cast<int>(name.size()), name.data(),
                static_cast<unsigned long long>(tally.tried[kind]));
  }
  std::printf(
      "%llu corruptions in %llu distinct places, %.4f%% rejected, %llu reported as BAD; %llu "
      "undamaged loads; %llu failures\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(tally.places),
      count == 0 ? 0.0 : 100.0 * static_cast<double>(tally.rejected) / static_cast<double>(count),
      static_cast<unsigned long long>(tally.bad_reports),
      static_cast<unsigned long long>(tally.controls),
      static_cast<unsigned long long>(tally.failures));
  return tally.failures == 0 ? 0 : 1;
}
