// The real larder-operator ended during all kinds of work: reviews, watches, reconciles, probes and
// scrapes are under way, and their clients go on asking. Each time the operator ends by itself, in
// time and with status 0. Under a sanitizer this tests every lifetime.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "operator/api/names.h"
#include "tests/component/kube/kube_test.h"
#include "tests/component/kube/larder_definitions.h"
#include "tests/unit/http/client.h"
#include "tests/unit/operator/webhook/reviews.h"
#include "tests/unit/operator/webhook/tls_client.h"
#include "tests/unit/text_file.h"

namespace larder::kube_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
namespace resources = k8s::resources;

// the operator gives itself 4 s; the rest is the machine's
constexpr seconds kPatience{60}, kMostToEnd{20};
constexpr int kPools = 20, kAskers = 4;

class OperatorEndTest : public KubeTest {
 protected:
  static void SetUpTestSuite() {
    KubeTest::SetUpTestSuite();
    if (plane_ == nullptr) return;
    const Connection connection(*plane_);
    const Status installed = install_definitions(*connection.client, {"ml", "larder"});
    ASSERT_TRUE(installed.ok()) << installed.to_string();
  }
  void prepare() override {
    for (int i = 0; i < kPools; ++i) put_pool();
  }
  // Every second pool has placement Node, with objects of its own. The tests share the server, so
  // the numbers go on from one test to the next.
  void put_pool() {
    const int number = pools_++;
    const api::Object spec{{"memory", {{"size", "1Gi"}}},
                           {"placement", number % 2 == 0 ? "Node" : "Sidecar"}};
    const auto made = client().create(
        resources::kPools,
        {{"apiVersion", "larder.dev/v1alpha1"},
         {"kind", "CachePool"},
         {"metadata", {{"name", "p" + std::to_string(number)}, {"namespace", "ml"}}},
         {"spec", spec}});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
  }
  std::string log() const { return test::text_of(plane_->folder() + "/operator.log"); }
  // The address in "WORDS 127.0.0.1:PORT" of the log; empty: not in time.
  std::string address_after(const std::string& words) const {
    for (const auto until = steady_clock::now() + kPatience; steady_clock::now() < until;) {
      const std::string text = log();
      if (const std::size_t at = text.find(words);
          at != std::string::npos && text.find('"', at) != std::string::npos)
        return text.substr(at + words.size(),
                           text.find_first_of("/\"", at + words.size()) - at - words.size());
      std::this_thread::sleep_for(milliseconds(20));
    }
    return "";
  }
  std::unique_ptr<Child> begin() const {
    std::filesystem::remove(plane_->folder() + "/operator.log");
    return std::make_unique<Child>(
        std::vector<std::string>{LARDER_OPERATOR, "--kubeconfig", plane_->kubeconfig(),
                                 "--namespace=larder", "--image=larder:1", "--identity=one",
                                 "--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0",
                                 "--webhook-address=127.0.0.1:0", "--leader-elect=false"},
        plane_->folder() + "/operator.log");
  }
  // Ends the operator; returns the fault of the end; empty: no fault.
  std::string ended(Child& one) const {
    const auto began = steady_clock::now();
    one.signal(SIGTERM);
    const int status = one.wait();
    const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
    if (status == 0 && took < kMostToEnd) return "";
    return "status " + std::to_string(status) + " after " + std::to_string(took.count()) +
           " ms:\n" + log();
  }

  inline static int pools_ = 0;
};

// Reviews, one after the other on a connection, and over a new one when that is gone.
void ask(const std::string& address, const std::atomic<bool>& over, std::atomic<int>& answered) {
  const std::string body = webhook::review_of(webhook::annotated_pod("p1")).dump();
  const std::string request =
      "POST /mutate-v1-pod HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  while (!over) {
    webhook::TlsClient client(address, {});
    while (!over && client.connected() && client.send(request) &&
           client.receive().starts_with("HTTP/1.1 200"))
      ++answered;
    if (!client.connected()) std::this_thread::sleep_for(milliseconds(10));
  }
}

// covers F-249
TEST_F(OperatorEndTest, EndsInTimeDuringReviews) {
  for (const int after_ms : {0, 30, 200}) {
    const auto one = begin();
    const std::string address = address_after("reviews on ");
    ASSERT_NE(address, "") << log();
    std::atomic<bool> over{false};
    std::atomic<int> answered{0};
    std::string wrong;
    {
      std::vector<std::jthread> askers;
      for (int i = 0; i < kAskers; ++i) askers.emplace_back([&] { ask(address, over, answered); });
      for (const auto until = steady_clock::now() + kPatience;
           answered < 2 * kAskers && steady_clock::now() < until;)
        std::this_thread::sleep_for(milliseconds(5));
      std::this_thread::sleep_for(milliseconds(after_ms));
      wrong = ended(*one);
      over = true;
    }
    EXPECT_GE(answered, 2 * kAskers) << "there were reviews to be in the middle of\n" << log();
    EXPECT_EQ(wrong, "") << "after " << after_ms << " ms";
  }
}

// From the first system call on: before any knowledge, during lists, during certificates and
// reconciles.
TEST_F(OperatorEndTest, EndsInTimeDuringStart) {
  for (const int after_ms : {20, 100, 300, 1000, 2000}) {
    const auto one = begin();
    const std::string address = address_after("reviews on ");
    ASSERT_NE(address, "") << log();
    std::this_thread::sleep_for(milliseconds(after_ms));
    EXPECT_EQ(ended(*one), "") << "after " << after_ms << " ms";
    put_pool();  // the next operator has something to do
  }
}

}  // namespace
}  // namespace larder::kube_test
