#include "tests/crash/victim.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <random>

#include "tests/crash/engine.h"

namespace larder::crash {
namespace {

constexpr std::uint64_t kMost = 3;  // chunks moved at once
constexpr std::uint64_t kAdapters = 8;

std::vector<std::uint64_t> some_keys(std::mt19937_64& random) {
  std::vector<std::uint64_t> keys;
  const std::uint64_t first = random() % kKeys;
  for (std::uint64_t i = 0; i < 1 + random() % kMost; ++i) keys.push_back((first + i) % kKeys);
  return keys;
}

// Opens an adapter, stores and loads with the adapter, and closes it again. All victims have the
// same few, with contents of their own. False: a wrong byte.
bool use_an_adapter(Engine& engine, std::mt19937_64& random, Tally& tally) {
  const std::uint64_t which = random() % kAdapters;
  const std::optional<std::uint32_t> adapter =
      engine.open_adapter("engine: victim\nadapter: " + std::to_string(which) + "\n", 50);
  if (!adapter) return true;
  engine.work_in(*adapter);
  const std::vector<std::uint64_t> keys = some_keys(random);
  tally.stored += engine.store(keys, which + 1, 50);
  const bool there = engine.load(keys) == Code::kOk;
  const bool right = !there || engine.holds_bytes_of(keys, which + 1);
  tally.loaded += there;
  engine.close_adapter(*adapter, random() % 2 == 0);
  engine.work_in(0);
  return right;
}

// False: a wrong byte.
bool one_round(Engine& engine, std::mt19937_64& random, const Orders& orders, Tally& tally) {
  const auto now_and_then = [&](std::string_view point, std::uint64_t one_in) {
    return orders.point == point || (orders.point.empty() && random() % one_in == 0);
  };
  const std::vector<std::uint64_t> stored = some_keys(random);
  tally.stored += engine.store(stored, random(), 50);
  if (now_and_then("store_submitted", 2))
    tally.stored += engine.submit(some_keys(random), random(), 50);
  engine.hold(stored);
  const std::vector<std::uint64_t> loaded = random() % 2 == 0 ? stored : some_keys(random);
  if (engine.load(loaded) == Code::kOk) {
    ++tally.loaded;
    if (!engine.holds_bytes_of(loaded)) return false;
  }
  if (now_and_then("disown_sent", 4)) engine.store(some_keys(random), random(), 0);
  if (now_and_then("bad_sent", 16)) engine.load_in_bad_faith(stored);
  if (now_and_then("orphan_written", 100)) engine.store_cut_off(some_keys(random), random());
  if (now_and_then("drop_sent", 200)) engine.drop();
  const bool comes_and_goes = now_and_then("open_sent", 20) || orders.point == "close_sent";
  return !comes_and_goes || use_an_adapter(engine, random, tally);
}

}  // namespace

Tally& Tally::make() {
  void* memory =
      ::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(5);
  return *new (memory) Tally();
}

int live(const Orders& orders, Tally& tally) {
  std::mt19937_64 random(orders.seed);
  const bool closes = orders.point == "closing" || orders.point == "session_closed";
  while (!tally.stop) {
    Engine engine(orders.socket);
    if (!engine.attached()) return 1;
    const std::uint64_t rounds = closes ? 1 : 50 + random() % 100;
    for (std::uint64_t i = 0; i < rounds && !tally.stop; ++i) {
      if (one_round(engine, random, orders, tally)) continue;
      ++tally.wrong;
      return 3;
    }
  }
  return 0;
}

int live_unfinished(const Orders& orders, PointPage& page) {
  std::mt19937_64 random(orders.seed);
  Engine engine(orders.socket);
  if (!engine.attached()) return 1;
  const std::vector<std::uint64_t> keys = some_keys(random);
  if (orders.seed % 2 == 0) {
    engine.begin(keys, random());
  } else {
    page.stop_at("store_half");
    engine.store(keys, random(), 5000);
  }
  for (;;) ::pause();
}

int check_all(const std::string& socket, Tally& tally) {
  Engine engine(socket);
  if (!engine.attached()) return 1;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    if (!engine.present(key)) continue;
    if (engine.load({key}) != Code::kOk) return 4;
    if (!engine.holds_bytes_of({key})) return 3;
    ++tally.loaded;
  }
  return 0;
}

}  // namespace larder::crash
