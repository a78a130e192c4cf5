#include "sidecar/store/reuse_model.h"

#include <gtest/gtest.h>

namespace larder::store {
namespace {

TEST(ReuseModelTest, StepsAreHalfOctaves) {
  EXPECT_EQ(ReuseModel::step_of(0), 0);
  EXPECT_EQ(ReuseModel::step_of(1), 2);
  EXPECT_EQ(ReuseModel::step_of(2), 3);
  EXPECT_EQ(ReuseModel::step_of(1023), 20);
  EXPECT_EQ(ReuseModel::step_of(UINT64_MAX / 2), ReuseModel::kSteps - 1);
}

TEST(ReuseModelTest, WithoutCountsOlderIsColder) {
  const ReuseModel model;
  for (std::uint64_t age = 1; age < 1ULL << 30; age *= 2)
    EXPECT_GT(model.worth(0, age / 2), model.worth(3, age)) << age;
}

TEST(ReuseModelTest, AKindThatIsUsedAgainIsWorthMore) {
  ReuseModel model;
  for (int i = 0; i < 1000; ++i) {
    model.waited(0, 0, 24);
    model.used_again(5, 0, 16);
  }
  model.refresh();
  EXPECT_GT(model.worth(5, 200), 10 * model.worth(0, 200));
  EXPECT_GT(model.worth(0, 100), model.worth(0, 2000));
}

TEST(ReuseModelTest, InALoopAnOldChunkIsWorthMoreThanAYoungOne) {
  ReuseModel model;
  for (int i = 0; i < 10'000; ++i) model.used_again(0, 0, 24);
  model.refresh();
  EXPECT_GT(model.worth(0, 4000), model.worth(0, 100));
}

TEST(ReuseModelTest, OldCountsFade) {
  ReuseModel model;
  for (int i = 0; i < 10'000; ++i) model.waited(0, 0, 40);
  model.refresh();
  const float before = model.worth(0, 100);
  for (int i = 0; i < 20; ++i) model.fade();
  for (int i = 0; i < 1000; ++i) model.used_again(0, 0, 16);
  model.refresh();
  EXPECT_GT(model.worth(0, 100), 100 * before);
}

}  // namespace
}  // namespace larder::store
