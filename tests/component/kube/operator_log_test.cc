// The real larder-operator with an unread log: standard error is a pipe that is full from the
// start. The operator answers reviews and probes, and ends in time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "operator/api/names.h"
#include "tests/component/command.h"
#include "tests/component/kube/kube_test.h"
#include "tests/component/kube/larder_definitions.h"
#include "tests/eventually.h"
#include "tests/unit/operator/webhook/reviews.h"
#include "tests/unit/operator/webhook/tls_client.h"

namespace larder::kube_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kReviews = 300, kPatienceMs = 60'000;
constexpr seconds kMostToEnd{20}, kMostForReviews{60};

// A pipe without a reader of its bytes, and without room.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    while (::write(ends_[1], "................", 16) > 0) {
    }
    EXPECT_EQ(::fcntl(ends_[1], F_SETFL, 0), 0);  // as a container's: writes block
  }
  ~FullPipe() {
    for (const int end : ends_) ::close(end);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ends_[1]);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

class OperatorLogTest : public KubeTest {
 protected:
  void prepare() override {
    const Status installed = install_definitions(*connection_->client, {"ml", "larder"});
    ASSERT_TRUE(installed.ok()) << installed.to_string();
    const auto made = connection_->client->create(
        k8s::resources::kPools, {{"apiVersion", "larder.dev/v1alpha1"},
                                 {"kind", "CachePool"},
                                 {"metadata", {{"name", "chat"}, {"namespace", "ml"}}},
                                 {"spec", {{"memory", {{"size", "1Gi"}}}}}});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
  }
  // The log cannot tell the ports, so they are chosen before.
  std::string address(int number) const {
    return "127.0.0.1:" + std::to_string(20'000 + ::getpid() % 10'000 + 10'000 * number);
  }
  std::unique_ptr<Child> begin(const FullPipe& log) const {
    const std::string command =
        std::string("exec ") + LARDER_OPERATOR + " --kubeconfig " + plane_->kubeconfig() +
        " --namespace=larder --image=larder:1 --identity=one --leader-elect=false" +
        " --log-level=debug --metrics-address=" + address(0) + " --health-address=" + address(1) +
        " --webhook-address=" + address(2) + " 2>" + log.path();
    return std::make_unique<Child>(std::vector<std::string>{"/bin/sh", "-c", command},
                                   plane_->folder() + "/operator.out");
  }
  test::Outcome page(int number, const char* path) const {
    return test::run("curl -sf http://" + address(number) + path);
  }
};

// The answer about a pod of this pool: with a patch, or left alone and logged.
std::string answer_about(webhook::TlsClient& client, const std::string& pool) {
  return webhook::response_in(
             client.review(webhook::review_of(webhook::annotated_pod(pool)).dump()))
      .dump();
}

// covers F-107
TEST_F(OperatorLogTest, ReviewsAreAnsweredWithUnreadLog) {
  const FullPipe log;
  const auto one = begin(log);
  ASSERT_TRUE(test::eventually([&] { return page(1, "/readyz").status == 0; }, kPatienceMs));
  const auto began = steady_clock::now();
  for (int i = 0; i < kReviews; ++i) {
    // From many addresses, since the log has few lines for one address.
    webhook::TlsClient client(address(2), {.from = static_cast<unsigned char>(2 + i % 200)});
    ASSERT_TRUE(client.connected()) << "review " << i;
    const std::string injected = answer_about(client, "chat");
    ASSERT_NE(injected.find("larder-payload"), std::string::npos) << i << ": " << injected;
    const std::string left = answer_about(client, "missing");
    ASSERT_NE(left.find("there is no CachePool"), std::string::npos) << i << ": " << left;
  }
  EXPECT_LT(steady_clock::now() - began, kMostForReviews);
  EXPECT_EQ(page(1, "/healthz").status, 0);
  const std::string metrics = page(0, "/metrics").text;
  for (const char* name : {"larder_pods_not_injected_total{", "larder_log_dropped_lines_total "})
    EXPECT_NE(metrics.find(std::string("\n") + name), std::string::npos) << metrics;
  const auto stopped = steady_clock::now();
  one->signal(SIGTERM);
  EXPECT_EQ(one->wait(), 0);
  EXPECT_LT(steady_clock::now() - stopped, kMostToEnd);
}

}  // namespace
}  // namespace larder::kube_test
