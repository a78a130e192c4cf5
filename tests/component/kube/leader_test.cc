// The leader's lease and its fence among real processes, at a real API server.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include "tests/component/kube/kube_test.h"

namespace larder::kube_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class LeaderTest : public KubeTest {
 protected:
  std::unique_ptr<Child> candidate(const std::string& name, int lease_s) const {
    return std::make_unique<Child>(std::vector<std::string>{LEADER_CANDIDATE, plane_->kubeconfig(),
                                                            name, std::to_string(lease_s)},
                                   plane_->folder() + "/" + name + ".log");
  }
  // The resourceVersion of a candidate's ConfigMap: changes with each write of the candidate.
  std::string version_of(const std::string& name) {
    const auto found = connection_->client->get(k8s::resources::kConfigMaps, "default", name);
    return found.ok() ? api::text_at(*found, "metadata.resourceVersion") : "";
  }
  // Seconds until the candidate writes (again); -1: not within 60 s.
  double seconds_to_write(const std::string& name) {
    const auto began = steady_clock::now();
    for (const std::string before = version_of(name); steady_clock::now() - began < seconds(60);) {
      if (version_of(name) != before)
        return std::chrono::duration<double>(steady_clock::now() - began).count();
      std::this_thread::sleep_for(milliseconds(20));
    }
    return -1;
  }
};

TEST_F(LeaderTest, KilledLeaderIsSucceededWithin20s) {
  auto first = candidate("killed", 12);
  ASSERT_GE(seconds_to_write("killed"), 0);
  auto second = candidate("follower", 12);
  std::this_thread::sleep_for(seconds(3));
  EXPECT_EQ(version_of("follower"), "") << "it wrote beside the leader";
  first->signal(SIGKILL);
  const double waited = seconds_to_write("follower");
  std::printf("takeover after SIGKILL: %.1f s\n", waited);
  EXPECT_GE(waited, 0);
  EXPECT_LE(waited, 30) << "20 s on a calm machine";
  second->signal(SIGTERM);
  EXPECT_EQ(second->wait(), 0);
}

TEST_F(LeaderTest, AReleasedLeaseIsTakenAtOnce) {
  auto first = candidate("leaving", 50);
  ASSERT_GE(seconds_to_write("leaving"), 0);
  auto second = candidate("waiting", 50);
  std::this_thread::sleep_for(seconds(1));
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 0);
  const double waited = seconds_to_write("waiting");
  EXPECT_GE(waited, 0);
  EXPECT_LE(waited, 30) << "it waited for the lease's end";
  second->signal(SIGTERM);
  second->wait();
}

// A leader that writes without a pause is stopped at any moment, another leads, and the first one
// goes on: no byte of the first one arrives. FENCE_SECONDS=60 has the issue's own length with the
// product's lease.
// covers F-235
TEST_F(LeaderTest, AStoppedLeaderWritesNothingAfterwards) {
  const char* given = std::getenv("FENCE_SECONDS");
  const int stop_s = given == nullptr ? 8 : std::atoi(given);
  const int lease_s = given == nullptr ? 4 : 12;
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < (given == nullptr ? 3 : 2); ++round) {
    auto first = candidate("stopped", lease_s);
    ASSERT_GE(seconds_to_write("stopped"), 0);
    auto second = candidate("leader", lease_s);
    std::this_thread::sleep_for(std::chrono::microseconds(300'000 + random() % 100'000));
    first->signal(SIGSTOP);
    std::this_thread::sleep_for(seconds(stop_s));
    ASSERT_GE(seconds_to_write("leader"), 0) << "nobody leads";
    const std::string before = version_of("stopped");
    first->signal(SIGCONT);
    std::this_thread::sleep_for(seconds(3));
    EXPECT_EQ(version_of("stopped"), before) << "round " << round << ": it wrote without the lease";
    EXPECT_GE(seconds_to_write("leader"), 0) << "the other leads on";
    // And the first one can lead again: it was fenced, not broken.
    second->signal(SIGTERM);
    second->wait();
    EXPECT_GE(seconds_to_write("stopped"), 0);
    first->signal(SIGTERM);
    first->wait();
  }
}

}  // namespace
}  // namespace larder::kube_test
