#include "shim/client/copy_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "tests/eventually.h"

namespace larder::client {
namespace {

class CountingJob final : public CopyJob {
 public:
  CountingJob(std::size_t parts, std::size_t fail_at)
      : CopyJob(parts), seen_(parts), fail_at_(fail_at) {}
  bool copy(std::size_t part) override {
    ++running_;
    ++seen_[part];
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    --running_;
    return part != fail_at_;
  }
  void finished() override {
    finished_with_writers_ = running_ != 0;
    ++finished_;
  }

  std::atomic<int> running_{0};
  std::atomic<int> finished_{0};
  std::atomic<bool> finished_with_writers_{false};
  std::vector<std::atomic<int>> seen_;
  const std::size_t fail_at_;
};

TEST(CopyPool, EveryPartRunsOnceAndEachJobFinishesOnce) {
  CopyPool pool(2);
  const auto job = std::make_shared<CountingJob>(100, 1000);
  pool.run(job);
  EXPECT_EQ(job->finished_, 1);
  for (const auto& seen : job->seen_) EXPECT_EQ(seen, 1);
}

TEST(CopyPool, ThrowingWorkEndsOnlyItself) {
  CopyPool pool(1);
  std::atomic<bool> done{false};
  ASSERT_TRUE(pool.submit(std::make_shared<PoolWork>([] { throw std::bad_alloc(); })));
  ASSERT_TRUE(pool.submit(std::make_shared<PoolWork>([&] { done = true; })));
  EXPECT_TRUE(test::eventually([&] { return done.load(); }));
}

TEST(CopyPool, AFailureStartsNoFurtherPart) {
  CopyPool pool(2);
  const auto job = std::make_shared<CountingJob>(1000, 3);
  pool.run(job);
  EXPECT_EQ(job->finished_, 1);
  EXPECT_FALSE(job->finished_with_writers_);
  EXPECT_LE(job->seen_[900], 0);
}

TEST(CopyPool, QueueIsBoundedAndClosingFinishesQueuedJobs) {
  std::vector<std::shared_ptr<CountingJob>> jobs;
  std::size_t accepted = 0;
  {
    CopyPool pool(1);
    for (std::size_t i = 0; i < 2 * CopyPool::kMaxQueued; ++i) {
      jobs.push_back(std::make_shared<CountingJob>(1000, 5000));
      accepted += pool.submit(jobs.back()) ? 1 : 0;
    }
    EXPECT_LE(accepted, CopyPool::kMaxQueued + 1);
  }
  int finished = 0;
  for (const auto& job : jobs) finished += job->finished_;
  EXPECT_EQ(static_cast<std::size_t>(finished), accepted);
}

// Each part waits until as many are under way; or until the test gives up.
class MeetingJob final : public CopyJob {
 public:
  explicit MeetingJob(std::size_t parts) : CopyJob(parts), parts_(parts) {}
  bool copy(std::size_t) override {
    ++here_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (here_ < parts_ && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    met_ = met_ && here_ == parts_;
    return true;
  }
  void finished() override { finished_ = true; }
  const std::size_t parts_;
  std::atomic<std::size_t> here_{0};
  std::atomic<bool> met_{true}, finished_{false};
};

TEST(CopyPool, WokenThreadWakesTheOthers) {
  CopyPool pool(4);
  for (int round = 0; round < 20; ++round) {
    // until all sleep
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto job = std::make_shared<MeetingJob>(4);
    ASSERT_TRUE(pool.submit(job));
    while (!job->finished_) std::this_thread::yield();
    EXPECT_TRUE(job->met_);
  }
}

// Keeps the pool's thread until the signal.
class BlockingJob final : public CopyJob {
 public:
  BlockingJob() : CopyJob(1) {}
  bool copy(std::size_t) override {
    while (!go_) std::this_thread::yield();
    return true;
  }
  void finished() override {}
  std::atomic<bool> go_{false};
};

class NotingJob final : public CopyJob {
 public:
  NotingJob(char name, std::string& order, std::atomic<int>& ended, Urgency urgency)
      : CopyJob(1, urgency), name_(name), order_(order), ended_(ended) {}
  bool copy(std::size_t) override { return true; }
  void finished() override {
    order_ += name_;
    ++ended_;
  }
  const char name_;
  std::string& order_;
  std::atomic<int>& ended_;
};

TEST(CopyPool, BackgroundWorkRunsLast) {
  std::string order;
  std::atomic<int> ended{0};
  {
    CopyPool pool(1);
    const auto first = std::make_shared<BlockingJob>();
    ASSERT_TRUE(pool.submit(first));
    for (const char store : {'s', 't'})
      ASSERT_TRUE(pool.submit(std::make_shared<NotingJob>(store, order, ended, Urgency::kYields)));
    for (const char load : {'a', 'b'})
      ASSERT_TRUE(
          pool.submit(std::make_shared<NotingJob>(load, order, ended, Urgency::kWaitedFor)));
    first->go_ = true;
    while (ended < 4) std::this_thread::yield();
  }
  EXPECT_EQ(order, "abst");
}

TEST(CopyPool, ManyCallersAtOnce) {
  CopyPool pool(2);
  std::vector<std::thread> callers;
  std::atomic<int> finished{0};
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto job = std::make_shared<CountingJob>(1 + round % 5, 1000);
        pool.run(job);
        finished += job->finished_;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(finished, 80);
}

}  // namespace
}  // namespace larder::client
