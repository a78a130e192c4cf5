#include "sidecar/tiers/disk/catalog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "sidecar/tiers/disk/region_table.h"

namespace larder::disk {
namespace {

tiers::ChunkKey key_of(std::uint64_t number) {
  return {{number % 3, 0},
          {number * 0x9e3779b97f4a7c15ULL, number},
          static_cast<std::uint16_t>(number % 2),
          0};
}

Record record_of(std::uint64_t number, std::uint32_t block) {
  return {key_of(number), {number, 4096, 4096, number}, block, 0};
}

// Against a plain map, over growth, replacement, regions and namespaces leaving.
TEST(CatalogTest, BehavesLikeAMap) {
  constexpr std::uint32_t kRegions = 7;
  std::mt19937_64 random(20261121);
  Catalog catalog(kRegions);
  // number: region and block
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> expected;
  for (std::uint32_t step = 0; step < 60'000; ++step) {
    const std::uint64_t number = random() % 4000;
    const auto region = static_cast<std::uint32_t>(random() % kRegions);
    const std::uint64_t what = random() % 1000;
    if (what < 600) {
      catalog.insert(record_of(number, step), region);
      expected[number] = {region, step};
    } else if (what < 950) {
      const auto at = expected.find(number);
      const bool there = at != expected.end();
      EXPECT_FALSE(there && catalog.erase(key_of(number), at->second.first, at->second.second + 1))
          << "another place";
      EXPECT_EQ(there && catalog.erase(key_of(number), at->second.first, at->second.second), there);
      if (there) expected.erase(at);
    } else if (what < 955) {
      const std::uint64_t gone =
          std::erase_if(expected, [&](const auto& e) { return e.second.first == region; });
      EXPECT_EQ(catalog.erase_region(region), gone);
    } else if (what < 957) {
      const std::uint64_t space = number % 3;
      const std::uint64_t gone =
          std::erase_if(expected, [&](const auto& e) { return e.first % 3 == space; });
      EXPECT_EQ(catalog.erase_namespace({space, 0}), gone);
    }
    ASSERT_EQ(catalog.chunks(), expected.size());
    const std::uint64_t probe = random() % 4000;
    const std::optional<Located> found = catalog.find(key_of(probe));
    const auto at = expected.find(probe);
    ASSERT_EQ(found.has_value(), at != expected.end());
    ASSERT_TRUE(!found ||
                (found->region == at->second.first && found->record.block == at->second.second));
  }
  EXPECT_EQ(catalog.slot_bytes(), expected.size() * 8192);
}

// Footers are read in no order.
TEST(CatalogTest, LaterAppendOfAKeyWins) {
  RegionTable table(3, 1024);
  table[0].sequence = 5;
  table[1].sequence = 9;
  Catalog catalog(3);
  const auto of = [](std::uint64_t from, std::uint64_t to, std::uint32_t block) {
    std::vector<Record> records;
    for (std::uint64_t number = from; number < to; ++number)
      records.push_back(record_of(number, block));
    return records;
  };
  const auto at = [&](std::uint64_t number) {
    const std::optional<Located> found = catalog.find(key_of(number));
    return found ? std::pair(found->region, found->record.block) : std::pair(99U, 99U);
  };
  using Place = std::pair<std::uint32_t, std::uint32_t>;
  catalog.insert_later(of(0, 1000, 7), 1, table);
  catalog.insert_later(of(500, 1500, 8), 0, table);
  EXPECT_EQ(at(499), Place(1, 7));
  EXPECT_EQ(at(500), Place(1, 7)) << "of a later region";
  EXPECT_EQ(at(1000), Place(0, 8));
  catalog.insert_later(of(0, 10, 6), 1, table);
  EXPECT_EQ(at(0), Place(1, 7)) << "later in the region";
  catalog.insert_later(of(0, 10, 9), 1, table);
  EXPECT_EQ(at(0), Place(1, 9));
  EXPECT_EQ(catalog.chunks(), 1500U);
  EXPECT_EQ(catalog.slot_bytes(), 1500U * 8192);
  EXPECT_EQ(catalog.erase_region(0), 500U);
  EXPECT_EQ(catalog.erase_region(1), 1000U);
}

class SeenResidents final : public tiers::Residents {
 public:
  void added(const tiers::ChunkKey& key) override { there_.insert(key.hash.hi); }
  void removed(const tiers::ChunkKey& key) override { there_.erase(key.hash.hi); }
  void removed_all() override { there_.clear(); }
  const std::set<std::uint64_t>& there() const { return there_; }

 private:
  std::set<std::uint64_t> there_;  // by number
};

TEST(CatalogTest, ResidentsAreReported) {
  using Numbers = std::set<std::uint64_t>;
  SeenResidents residents;
  Catalog catalog(3, &residents);
  for (std::uint64_t number = 0; number < 9; ++number)
    catalog.insert(record_of(number, 1), static_cast<std::uint32_t>(number / 3));
  catalog.insert(record_of(8, 2), 0);  // replaced, in another region
  EXPECT_EQ(residents.there(), (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  catalog.erase(key_of(4), 1, 7);
  EXPECT_TRUE(residents.there().contains(4)) << "another place";
  catalog.erase(key_of(4), 1, 1);
  EXPECT_EQ(residents.there(), (Numbers{0, 1, 2, 3, 5, 6, 7, 8}));
  catalog.erase_region(2);
  EXPECT_EQ(residents.there(), (Numbers{0, 1, 2, 3, 5, 8}));
  catalog.erase_namespace({2, 0});
  EXPECT_EQ(residents.there(), (Numbers{0, 1, 3}));
  RegionTable table(3, 1024);
  catalog.insert_later(std::vector{record_of(1, 9), record_of(10, 9), record_of(13, 9)}, 2, table);
  EXPECT_EQ(residents.there(), (Numbers{0, 1, 3, 10, 13}));
  catalog.reset(3);
  EXPECT_EQ(residents.there(), Numbers{});
}

// The filter stays whole for readers while its tables are exchanged.
TEST(CatalogTest, StaysConsistentForReadersWhileGrowing) {
  constexpr std::uint32_t kChunks = 1 << 20;
  Catalog catalog(1);
  std::atomic<bool> done{false};
  std::jthread writer([&] {
    for (std::uint32_t i = 0; i < kChunks; ++i) catalog.insert(record_of(i, i), 0);
    done = true;
  });
  std::uint64_t found = 0;
  while (!done) found += catalog.find(key_of(1)).has_value();
  writer.join();
  EXPECT_GT(found, 0U);
  EXPECT_EQ(catalog.chunks(), kChunks);
  for (std::uint32_t i = 0; i < kChunks; i += 997)
    ASSERT_TRUE(catalog.find(key_of(i)).has_value()) << i;
}

// Keys whose words are multiples of one another once found themselves in one place: the time grew
// with the square of their number.
TEST(CatalogTest, ConsecutiveKeysAreSpread) {
  Catalog catalog(1);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < 100'000; ++i) catalog.insert(record_of(i, i), 0);
  EXPECT_EQ(catalog.chunks(), 100'000U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST(CatalogTest, HiddenNamespaceNeedsAsManyShowsAsHides) {
  Catalog catalog(1);
  catalog.insert(record_of(3, 0), 0);
  catalog.insert(record_of(4, 9), 0);
  catalog.hide({0, 0});
  catalog.hide({0, 0});
  catalog.show({0, 0});
  EXPECT_FALSE(catalog.find(key_of(3)).has_value());
  EXPECT_TRUE(catalog.find(key_of(4)).has_value());
  catalog.show({0, 0});
  EXPECT_TRUE(catalog.find(key_of(3)).has_value());
  catalog.hide_all();
  EXPECT_FALSE(catalog.find(key_of(4)).has_value());
  catalog.show_all();
  EXPECT_TRUE(catalog.find(key_of(4)).has_value());
}

TEST(CatalogTest, ReadersSeeWholeRecordsDuringChanges) {
  Catalog catalog(2);
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
      catalog.insert(record_of(i % 512, i), i % 2);
      if (i % 5000 == 0) catalog.erase_region(0);
    }
  });
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::optional<Located> found = catalog.find(key_of(i % 512));
    ASSERT_TRUE(!found ||
                (found->record.key == key_of(i % 512) && found->record.facts.root == i % 512));
  }
}

TEST(RegionTableTest, OldestUnreadRegionIsReusedAndFailedOnesLast) {
  RegionTable table(4, 1024);
  for (std::uint32_t i = 0; i < 4; ++i) {
    table[i].state = RegionState::kClosed;
    table[i].sequence = 10 - i;
  }
  EXPECT_EQ(table.next_victim(), 3U);
  table[3].reads = 1;
  EXPECT_EQ(table.next_victim(), 2U);
  table[2].failures = 1;
  EXPECT_EQ(table.next_victim(), 1U);
  table[0].state = RegionState::kFree;
  EXPECT_EQ(table.next_victim(), 0U) << "a free one costs no time";
  for (std::uint32_t i = 0; i < 4; ++i) table[i].reads = 1;
  EXPECT_EQ(table.next_victim(), std::nullopt);
}

TEST(RegionTableTest, NewSequencesExceedThoseOfLostTrailers) {
  RegionTable table(8, 1024);
  table.saw_sequence(100);
  EXPECT_GT(table.next_sequence(), 108U);
  table.saw_sequence(50);
  EXPECT_GT(table.next_sequence(), 108U);
}

}  // namespace
}  // namespace larder::disk
