#include "shim/client/copy_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace larder::client {
namespace {

class CountingJob final : public CopyJob {
 public:
  CountingJob(std::size_t parts, std::size_t fail_at) : CopyJob(parts), seen_(parts), fail_at_(fail_at) {}
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

TEST(CopyPool, EveryPartOnceAndFinishedOnce) {
  CopyPool pool(2);
  const auto job = std::make_shared<CountingJob>(100, 1000);
  pool.run(job);
  EXPECT_EQ(job->finished_, 1);
  for (const auto& seen : job->seen_) EXPECT_EQ(seen, 1);
}

TEST(CopyPool, AFailureStartsNoFurtherPart) {
  CopyPool pool(2);
  const auto job = std::make_shared<CountingJob>(1000, 3);
  pool.run(job);
  EXPECT_EQ(job->finished_, 1);
  EXPECT_FALSE(job->finished_with_writers_);
  EXPECT_LE(job->seen_[900], 0);
}

TEST(CopyPool, TheQueueIsBoundedAndClosingFinishesWhatIsInIt) {
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
