// The queue of answers to drops: order, bounds, and the ways out of the queue.
#include "sidecar/loop/fence_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>

namespace larder::loop {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Drop = std::promise<Status>;

class FenceQueueTest : public testing::Test {
 protected:
  static tiering::PendingDrop pending(Drop& drop, bool shared = false) {
    return {drop.get_future().share(), shared};
  }
  Status hold(std::uint32_t session, std::size_t bytes, std::vector<tiering::PendingDrop> drops) {
    return queue_.hold(session, std::vector<std::byte>(bytes), std::move(drops), 0);
  }
  // The sizes of the packets name the packets.
  std::vector<std::size_t> done_at(std::uint64_t now_ms) {
    std::vector<std::size_t> sizes;
    for (const FenceQueue::Answer& answer : queue_.take_done(now_ms))
      sizes.push_back(answer.packet.size());
    return sizes;
  }

  std::set<std::uint32_t> live_{1, 2};
  FenceQueue queue_{[this](std::uint32_t session) { return live_.contains(session); }};
};

TEST_F(FenceQueueTest, AnswerWaitsForAllItsDropsInOrder) {
  Drop first, second, third;
  ASSERT_TRUE(hold(1, 10, {pending(first), pending(second)}).ok());
  ASSERT_TRUE(hold(2, 20, {pending(third)}).ok());
  EXPECT_THAT(done_at(1), IsEmpty());
  first.set_value({});
  EXPECT_THAT(done_at(2), IsEmpty());
  second.set_value({});
  third.set_value({Code::kUnavailable, "the tier is gone"});  // an answer of the tier too
  EXPECT_THAT(done_at(3), ElementsAre(10, 20));
  EXPECT_THAT(done_at(4), IsEmpty());
}

TEST_F(FenceQueueTest, ReadyAnswerDoesNotWaitForAnOlderOne) {
  Drop slow, fast;
  ASSERT_TRUE(hold(1, 10, {pending(slow)}).ok());
  ASSERT_TRUE(hold(1, 11, {pending(fast)}).ok());
  fast.set_value({});
  EXPECT_THAT(done_at(1), ElementsAre(11));
  slow.set_value({});
  EXPECT_THAT(done_at(2), ElementsAre(10));
}

TEST_F(FenceQueueTest, OnlyTheWaitForASharedTierIsBounded) {
  Drop disk, backend;
  ASSERT_TRUE(hold(1, 10, {pending(disk)}).ok());
  ASSERT_TRUE(hold(1, 11, {pending(backend, true)}).ok());
  EXPECT_THAT(done_at(FenceQueue::kSharedFenceMs - 1), IsEmpty());
  EXPECT_THAT(done_at(FenceQueue::kSharedFenceMs), ElementsAre(11));
  EXPECT_THAT(done_at(1000 * FenceQueue::kSharedFenceMs), IsEmpty());
}

TEST_F(FenceQueueTest, FencesAreBoundedPerSession) {
  Drop drop;
  const tiering::PendingDrop waiting = pending(drop);
  for (int i = 0; i < FenceQueue::kMaxFences; ++i) ASSERT_TRUE(hold(1, 10, {waiting}).ok());
  EXPECT_EQ(hold(1, 10, {waiting}).code(), Code::kResourceExhausted);
  EXPECT_TRUE(hold(2, 20, {waiting}).ok());
  drop.set_value({});
  EXPECT_EQ(done_at(1).size(), FenceQueue::kMaxFences + 1U);
  EXPECT_TRUE(hold(1, 10, {waiting}).ok());
}

TEST_F(FenceQueueTest, EndedSessionLosesItsFences) {
  Drop never, done;
  ASSERT_TRUE(hold(1, 10, {pending(never)}).ok());
  ASSERT_TRUE(hold(2, 20, {pending(done)}).ok());
  live_.clear();
  done.set_value({});
  EXPECT_THAT(done_at(1), IsEmpty());
  live_ = {1, 2};
  never.set_value({});
  EXPECT_THAT(done_at(2), IsEmpty());
}

}  // namespace
}  // namespace larder::loop
