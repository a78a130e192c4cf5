// Readers beside the writer, as threads of one process so that TSan sees the handshake: words,
// holds and payload alike. A payload is plain memory here; if a slot were reused under a reader's
// hold, TSan reports a race and the bytes are wrong.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

constexpr std::uint64_t kRacedSlots = 128;  // two slots a batch of eviction
constexpr std::uint64_t kRacedKeys = 256;

// The bytes in a slot, from key and generation alone.
std::uint64_t expected(std::uint64_t key, std::uint64_t generation) {
  return key * 0x9e3779b97f4a7c15ULL ^ generation;
}
std::uint64_t* words(StoreBox& box, std::uint64_t offset_bytes) {
  return reinterpret_cast<std::uint64_t*>(box.arena() + offset_bytes);
}

struct ReaderResult {
  std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint64_t> wrong{0};
};

void read_for_ever(StoreBox& box, protocol::SessionRegion& region, std::uint64_t seed,
                   const std::atomic<bool>& stop, ReaderResult& result) {
  std::mt19937_64 random(seed);
  // the hold is the first one scanned: a long scan behind it gives the race its chance
  region.holds_used = 1024;
  while (!stop.load(std::memory_order_relaxed)) {
    const std::uint64_t key = random() % kRacedKeys;
    const auto view = box.find(key);
    if (!view) continue;
    result.wrong += view->root != expected(key, view->generation);
    region.holds[0].exchange(protocol::make_hold(view->slot, view->generation),
                             std::memory_order_seq_cst);
    if (box.reader().still_committed(view->slot, view->generation)) {
      if (random() % 16 == 0) std::this_thread::yield();  // a copy takes its time
      const std::uint64_t* payload = words(box, view->offset_bytes);
      for (int i = 0; i < 8; ++i)
        result.wrong +=
            payload[i] != expected(key, view->generation) + static_cast<std::uint64_t>(i);
      ++result.read;
    }
    region.holds[0].exchange(0, std::memory_order_seq_cst);
  }
}

void store_many(StoreBox& box, std::uint64_t rounds) {
  std::mt19937_64 random(7);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const std::uint64_t key = random() % kRacedKeys;
    const protocol::Grant grant = box.reserve(1, key);
    if (grant.status != 0) continue;
    std::uint64_t* payload = words(box, grant.offset_bytes);
    for (std::uint64_t w = 0; w < 8; ++w) payload[w] = expected(key, grant.generation) + w;
    box.store().commit(1, {grant.slot, 0, grant.generation, expected(key, grant.generation)});
    if (i % 1000 == 0) box.drop(box.handle());
    if (i % 64 == 0) box.store().sweep();
  }
}

TEST(StoreConcurrency, ReadersNeverSeeWrongRootOrBytes) {
  StoreBox box(kRacedSlots);
  box.add_session(1);
  std::atomic<bool> stop{false};
  ReaderResult results[2];
  std::vector<std::thread> readers;
  for (SessionNumber i = 0; i < 2; ++i) {
    protocol::SessionRegion& region = box.add_session(2 + i);
    readers.emplace_back(
        [&box, &region, i, &stop, &results] { read_for_ever(box, region, i, stop, results[i]); });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do {
    store_many(box, 50'000);
  } while ((results[0].read < 1000 || results[1].read < 1000) &&
           std::chrono::steady_clock::now() < end);
  stop = true;
  for (std::thread& reader : readers) reader.join();
  for (const ReaderResult& result : results) {
    EXPECT_EQ(result.wrong, 0U);
    EXPECT_GT(result.read, 1000U);
  }
  EXPECT_GT(box.stats().evicted_capacity, 10'000U);
}

}  // namespace
}  // namespace larder::store::testing_support
