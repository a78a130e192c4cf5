#include "sidecar/tiers/remote/chunks/known_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace larder::remote {
namespace {

class Told final : public tiers::Residents {
 public:
  void added(const tiers::ChunkKey& key) override { keys.insert(key.hash.lo); }
  void removed(const tiers::ChunkKey& key) override { keys.erase(key.hash.lo); }
  void removed_all() override { keys.clear(); }
  std::set<std::uint64_t> keys;
};

Record record_of(std::uint64_t number, std::uint64_t generation = 1, std::uint64_t space = 1) {
  return {{{space, space}, {number, number}, 0, 0}, {generation, 4096, 4096, number}, kPartBytes};
}

TEST(KnownChunksTest, OldestChunksAreReplacedAndReported) {
  Told told;
  KnownChunks known(3, &told);
  for (std::uint64_t i = 0; i < 3; ++i) known.insert(record_of(i));
  known.insert(record_of(0, 2));  // told of once more: the youngest
  known.insert(record_of(3));
  EXPECT_EQ(told.keys, (std::set<std::uint64_t>{0, 2, 3}));
  EXPECT_FALSE(known.find(record_of(1).key, 0).has_value());
  EXPECT_EQ(known.find(record_of(0).key, 0)->facts.generation, 2U);
  EXPECT_EQ(known.chunks(), 3U);
  EXPECT_EQ(known.slot_bytes(), 3 * record_of(0).facts.slot_bytes());
  EXPECT_FALSE(known.erase(record_of(0).key, 1));
  EXPECT_TRUE(known.erase(record_of(0).key, 2));
  EXPECT_EQ(known.erase_all(), 2U);
  EXPECT_TRUE(told.keys.empty());
  EXPECT_EQ(known.slot_bytes(), 0U);
}

// Others read this from the loop: they must not wait for a drop of many chunks.
TEST(KnownChunksTest, ReadersAreNotBlockedByLargeErases) {
  for (const bool all : {false, true}) {
    using std::chrono::steady_clock;
    bool quick = false;
    for (int attempt = 0; attempt < 20 && !quick; ++attempt) {
      KnownChunks known(1 << 16, nullptr);
      for (std::uint64_t i = 0; i < 1 << 16; ++i) known.insert(record_of(i));
      std::atomic<bool> reading = false, done = false;
      steady_clock::duration longest{};
      std::thread reader([&] {
        while (!done) {
          const auto begin = steady_clock::now();
          known.find(record_of(5, 1, 2).key, 0);
          longest = std::max(longest, steady_clock::now() - begin);
          reading = true;
        }
      });
      while (!reading) std::this_thread::yield();
      const auto begin = steady_clock::now();
      EXPECT_EQ(all ? known.erase_all() : known.erase_namespace({1, 1}), 1U << 16);
      const auto took = steady_clock::now() - begin;
      done = true;
      reader.join();
      quick = 4 * longest < took;
    }
    EXPECT_TRUE(quick) << (all ? "all" : "a namespace");
  }
}

TEST(KnownChunksTest, HiddenOrExpiredChunkIsNotFound) {
  KnownChunks known(10, nullptr);
  known.insert(record_of(1), 100);
  known.insert(record_of(2, 1, 2));
  EXPECT_TRUE(known.find(record_of(1).key, 99).has_value());
  EXPECT_FALSE(known.find(record_of(1).key, 100).has_value());
  known.hide({1, 1});
  known.hide({1, 1});
  EXPECT_FALSE(known.find(record_of(1).key, 0).has_value());
  EXPECT_TRUE(known.find(record_of(2, 1, 2).key, 0).has_value());
  known.show({1, 1});
  EXPECT_FALSE(known.find(record_of(1).key, 0).has_value()) << "they nest";
  known.show({1, 1});
  EXPECT_TRUE(known.find(record_of(1).key, 0).has_value());
  known.hide_all();
  EXPECT_FALSE(known.find(record_of(2, 1, 2).key, 0).has_value());
  known.show_all();
  EXPECT_EQ(known.erase_namespace({2, 2}), 1U);
  EXPECT_TRUE(known.find(record_of(1).key, 0).has_value());
}

}  // namespace
}  // namespace larder::remote
