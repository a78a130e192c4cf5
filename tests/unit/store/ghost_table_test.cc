#include "sidecar/store/ghost_table.h"

#include <gtest/gtest.h>

namespace larder::store {
namespace {

Ghost ghost(std::uint64_t stamp, std::uint64_t uses = 1) {
  return {.tag = 0,
          .uses = uses & 31,
          .origin = 2,
          .left_at = 7,
          .stamp = stamp & GhostTable::kMostAge};
}

TEST(GhostTableTest, AGhostIsTakenOnce) {
  GhostTable table(1000);
  EXPECT_FALSE(table.take(5));
  EXPECT_FALSE(table.put(5, ghost(10, 3), 12));
  EXPECT_FALSE(table.take(6));
  const std::optional<Ghost> found = table.take(5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->uses, 3U);
  EXPECT_EQ(found->origin, 2U);
  EXPECT_EQ(found->left_at, 7U);
  EXPECT_EQ(GhostTable::age(*found, 12), 2U);
  EXPECT_FALSE(table.take(5));
}

TEST(GhostTableTest, TheOldestGhostOfABucketMakesRoom) {
  GhostTable table(1);  // one bucket
  for (std::uint64_t name = 0; name < 8; ++name)
    EXPECT_FALSE(table.put(name, ghost(100 - name), 100));
  const std::optional<Ghost> gone = table.put(8, ghost(100), 100);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->stamp, 93U);
  EXPECT_FALSE(table.take(7));
  EXPECT_TRUE(table.take(0));
}

TEST(GhostTableTest, AgesSurviveAWrapOfTheStamps) {
  EXPECT_EQ(GhostTable::age(ghost(GhostTable::kMostAge), GhostTable::kMostAge + 3), 3U);
}

}  // namespace
}  // namespace larder::store
