#include "operator/k8s/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "operator/k8s/metrics.h"

namespace larder::k8s {
namespace {

using std::chrono::milliseconds;

TEST(WorkQueueTest, OneWorkerPerKey) {
  const base::MonotonicClock clock;
  const auto queue = WorkQueue::make("pools", clock);
  std::stop_source stop;
  std::mutex mutex;
  std::map<Key, int> working;
  std::atomic<int> worked = 0, met = 0;
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < 4; ++worker)
      threads.emplace_back([&] {
        while (const auto key = queue->take(stop.get_token())) {
          {
            const std::lock_guard lock(mutex);
            if (++working[*key] > 1) ++met;
          }
          std::this_thread::yield();
          {
            const std::lock_guard lock(mutex);
            --working[*key];
          }
          // Every tenth fails once more.
          if (++worked % 10 == 0)
            queue->retry(*key);
          else
            queue->done(*key);
        }
      });
    for (unsigned i = 0; worked < 2'000; ++i) queue->add({"ns", "k" + std::to_string(i % 5)});
    stop.request_stop();
  }
  EXPECT_EQ(met, 0);
}

TEST(WorkQueueTest, WorkerWakesForANewKey) {
  const base::MonotonicClock clock;
  const auto queue = WorkQueue::make("pools", clock);
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(20));
    queue->add({"ns", "a"});
  });
  const auto key = queue->take({});
  ASSERT_TRUE(key);
  EXPECT_EQ(key->name, "a");
}

TEST(WorkQueueTest, DelaysKeysAndBacksOffAfterFailures) {
  const base::MonotonicClock clock;
  const auto queue = WorkQueue::make("pools", clock);
  const auto began = std::chrono::steady_clock::now();
  queue->add_after({"ns", "a"}, milliseconds(30));
  ASSERT_TRUE(queue->take({}));
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(29));
  queue->retry({"ns", "a"});
  ASSERT_TRUE(queue->take({}));
  queue->done({"ns", "a"});
  queue->add_after({"ns", "b"}, milliseconds(-5));
  EXPECT_TRUE(queue->take({}));
}

TEST(WorkQueueTest, StopRequestEndsAWait) {
  const base::MonotonicClock clock;
  const auto queue = WorkQueue::make("pools", clock);
  queue->add_after({"ns", "a"}, std::chrono::hours(1));
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(20));
    stop.request_stop();
  });
  EXPECT_EQ(queue->take(stop.get_token()), std::nullopt);
}

TEST(WorkQueueTest, ExportsTheMetricsOfControllerRuntime) {
  base::ManualClock clock;
  Metrics metrics;
  {
    const auto queue = WorkQueue::make("cachepool", clock, &metrics);
    queue->add({"ns", "a"});
    queue->add({"ns", "b"});
    clock.advance_ms(2'000);
    ASSERT_TRUE(queue->take({}));
    clock.advance_ms(500);
    const std::string text = metrics.text();
    for (const char* line :
         {R"(workqueue_depth{controller="cachepool",name="cachepool"} 1)",
          R"(workqueue_adds_total{controller="cachepool",name="cachepool"} 2)",
          R"(workqueue_queue_duration_seconds_sum{controller="cachepool",name="cachepool"} 2)",
          R"(workqueue_unfinished_work_seconds{controller="cachepool",name="cachepool"} 0.5)",
          R"(workqueue_longest_running_processor_seconds{controller="cachepool",)"
          R"(name="cachepool"} 0.5)"})
      EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
    queue->retry({"ns", "a"});
    EXPECT_NE(metrics.text().find(
                  R"(workqueue_retries_total{controller="cachepool",name="cachepool"} 1)"),
              std::string::npos);
    EXPECT_NE(
        metrics.text().find(
            R"(workqueue_work_duration_seconds_count{controller="cachepool",name="cachepool"} 1)"),
        std::string::npos);
  }
  EXPECT_FALSE(metrics.text().empty()) << "the queue has gone, and asks for no work";
}

}  // namespace
}  // namespace larder::k8s
