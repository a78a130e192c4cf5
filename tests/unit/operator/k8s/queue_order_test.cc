// Properties of the queue's order, with seeds: a model beside it, thousands of random steps.
#include "operator/k8s/queue_order.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace larder::k8s {
namespace {

Key key(unsigned number) {
  return {"ns" + std::to_string(number % 2), "k" + std::to_string(number)};
}

class QueueModel {
 public:
  explicit QueueModel(unsigned seed) : random_(seed) {}

  void step() {
    now_ms_ += dice(4) == 0 ? dice(2'000) : 0;
    switch (dice(6)) {
      case 0:
      case 1: return add(key(dice(kKeys)));
      case 2: return add_later(key(dice(kKeys)));
      case 3: return take();
      case 4: return end(false);
      case 5: return end(true);
    }
  }

  // Everything that was wanted comes in the end, once each.
  void drain() {
    for (unsigned rounds = 0;
         rounds < 10'000 && (order_.queued() + order_.later() + working_.size() > 0); ++rounds) {
      if (!working_.empty())
        end(false);
      else if (order_.queued() > 0)
        take();
      else
        now_ms_ = *order_.next_due_ms(), take();
    }
    EXPECT_TRUE(wanted_.empty() && later_.empty());
    if (!wanted_.empty()) ADD_FAILURE() << wanted_.begin()->name << " never came";
    EXPECT_EQ(order_.queued() + order_.later() + order_.working(), 0U);
  }

 private:
  static constexpr unsigned kKeys = 7;

  unsigned dice(std::size_t below) { return static_cast<unsigned>(random_() % below); }

  void add(const Key& added) {
    order_.add(added, now_ms_);
    wanted_.insert(added);
  }
  void add_later(const Key& added) {
    const std::uint64_t due_ms = now_ms_ + dice(3'000);
    order_.add_at(added, due_ms, now_ms_);
    want_at(added, due_ms);
  }
  // The earliest time counts.
  void want_at(const Key& wanted, std::uint64_t due_ms) {
    if (due_ms <= now_ms_) {
      wanted_.insert(wanted);
      return;
    }
    const auto [found, fresh] = later_.emplace(wanted, due_ms);
    if (!fresh) found->second = std::min(found->second, due_ms);
  }
  void take() {
    for (const auto& [later, due_ms] : later_)
      if (due_ms <= now_ms_) wanted_.insert(later);
    std::erase_if(later_, [this](const auto& entry) { return entry.second <= now_ms_; });
    const auto taken = order_.take(now_ms_);
    if (!taken) return;
    EXPECT_FALSE(working_.contains(taken->key)) << "two workers on one key";
    EXPECT_TRUE(wanted_.contains(taken->key)) << "nobody wanted it";
    EXPECT_LE(taken->added_ms, now_ms_);
    working_.insert(taken->key);
    wanted_.erase(taken->key);
    check();
  }
  void end(bool failed) {
    if (working_.empty()) return;
    const Key ended = *std::next(working_.begin(), static_cast<int>(dice(working_.size())));
    working_.erase(ended);
    if (failed) {
      const std::uint64_t backoff_ms =
          order_.retry(ended, now_ms_, static_cast<std::uint32_t>(random_()));
      EXPECT_LE(backoff_ms, QueueOrder::kLongestBackoffMs);
      EXPECT_GE(backoff_ms, QueueOrder::kFirstBackoffMs * 3 / 4);
      want_at(ended, now_ms_ + backoff_ms);
    } else {
      order_.done(ended, now_ms_);
    }
    check();
  }
  void check() {
    EXPECT_EQ(order_.working(), working_.size());
    EXPECT_LE(order_.queued(), kKeys);
    EXPECT_EQ(order_.later(), later_.size());
  }

  std::mt19937 random_;
  QueueOrder order_;
  std::uint64_t now_ms_ = 1'000;
  std::set<Key> working_, wanted_;
  std::map<Key, std::uint64_t> later_;
};

TEST(QueueOrderTest, EachKeyIsTakenOnceAndNoneIsLost) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    QueueModel model(seed);
    for (int steps = 0; steps < 400; ++steps) model.step();
    model.drain();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(QueueOrderTest, KeyAddedTwiceIsTakenOnce) {
  QueueOrder order;
  for (int i = 0; i < 5; ++i) order.add(key(1), 0);
  EXPECT_TRUE(order.take(0));
  EXPECT_FALSE(order.take(0));
}

TEST(QueueOrderTest, KeyAddedWhileProcessedIsQueuedAgain) {
  QueueOrder order;
  order.add(key(1), 0);
  EXPECT_TRUE(order.take(0));
  order.add(key(1), 5);
  EXPECT_FALSE(order.take(5));
  order.done(key(1), 9);
  const auto again = order.take(9);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->added_ms, 9U) << "it waited from when it could be taken";
  order.done(key(1), 9);
  EXPECT_FALSE(order.take(9));
}

TEST(QueueOrderTest, EarliestTimeWins) {
  QueueOrder order;
  order.add_at(key(1), 500, 0);
  order.add_at(key(1), 100, 0);
  order.add_at(key(1), 900, 0);
  EXPECT_EQ(order.later(), 1U);
  EXPECT_FALSE(order.take(99));
  EXPECT_TRUE(order.take(100));
  order.done(key(1), 100);
  EXPECT_FALSE(order.take(10'000));
}

TEST(QueueOrderTest, BackoffDoublesAndResets) {
  QueueOrder order;
  std::uint64_t now_ms = 0, whole = QueueOrder::kFirstBackoffMs;
  order.add(key(1), now_ms);
  for (std::uint32_t failures = 0; failures < 40; ++failures) {
    ASSERT_TRUE(order.take(now_ms));
    const std::uint64_t backoff_ms = order.retry(key(1), now_ms, 0xdeadbeef * failures);
    EXPECT_LE(backoff_ms, whole);
    EXPECT_GE(backoff_ms, whole - whole / 4);
    now_ms += backoff_ms;
    ASSERT_EQ(order.next_due_ms(), now_ms);
    whole = std::min(whole * 2, QueueOrder::kLongestBackoffMs);
  }
  EXPECT_EQ(whole, QueueOrder::kLongestBackoffMs);

  QueueOrder fresh;
  fresh.add(key(1), 0);
  fresh.take(0);
  fresh.retry(key(1), 0, 0);
  fresh.take(100);
  fresh.done(key(1), 100);
  fresh.add(key(1), 100);
  fresh.take(100);
  EXPECT_LE(fresh.retry(key(1), 100, 0), QueueOrder::kFirstBackoffMs)
      << "done() ends a row of failures";
}

}  // namespace
}  // namespace larder::k8s
