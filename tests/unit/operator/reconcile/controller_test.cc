#include "operator/reconcile/controller.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>

#include "sidecar/base/nap.h"

namespace larder::reconcile {
namespace {

// Else the next leader, and a SIGTERM, would wait for the whole silence of a backend.
TEST(ControllerTest, DestructorStopsRunningReconciles) {
  const base::MonotonicClock clock;
  k8s::Metrics metrics;
  const auto queue = k8s::WorkQueue::make("controller_test", clock);
  std::latch begun(1);
  bool stopped = false;
  {
    const Controller controller("controller_test", *queue, metrics, 1,
                                [&](const k8s::Key&, const std::stop_token& stop) {
                                  begun.count_down();
                                  base::nap(std::chrono::minutes(1), stop);
                                  stopped = stop.stop_requested();
                                  return Done{};
                                });
    queue->add({"ml", "one"});
    begun.wait();
  }
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace larder::reconcile
