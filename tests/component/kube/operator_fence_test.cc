// The real larder-operator, stopped during all kinds of a leader's writes while another takes its
// place, goes on. The API server's own record shows every later write.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include "tests/component/kube/await.h"
#include "tests/component/kube/kube_test.h"
#include "tests/component/kube/larder_definitions.h"
#include "tests/component/kube/webhook_configuration.h"
#include "tests/unit/text_file.h"

namespace larder::kube_test {
namespace {

using api::Object;
using std::chrono::seconds;
using std::chrono::steady_clock;
namespace resources = k8s::resources;

constexpr int kFencedPools = 200;

class OperatorFenceTest : public KubeTest {
 protected:
  static void SetUpTestSuite() { plane_ = ControlPlane::start_audited(); }

  void prepare() override {
    const Status installed = install_definitions(client(), {"ml", "larder"});
    ASSERT_TRUE(installed.ok()) << installed.to_string();
    const Status configured = configure_webhooks(
        client(), {webhook_entry("of.nobody.larder.dev", "127.0.0.1:1", "false")});
    ASSERT_TRUE(configured.ok()) << configured.to_string();
    for (int i = 0; i < kFencedPools; ++i) put(i);
  }
  // Every fourth has objects of its own to be made, every other one an Event to be written.
  void put(int number) {
    const Object spec =
        number % 4 == 0 ? Object{{"memory", {{"size", "1Gi"}}}, {"placement", "Node"}}
                        : Object{{"memory", {{"size", "1Gi"}}}, {"backendRef", {{"name", "none"}}}};
    const auto made = client().create(
        resources::kFencedPools,
        {{"apiVersion", "larder.dev/v1alpha1"},
         {"kind", "CachePool"},
         {"metadata", {{"name", "p" + std::to_string(number)}, {"namespace", "ml"}}},
         {"spec", spec}});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
  }
  // A user of its own, for the record.
  std::unique_ptr<Child> replica(const std::string& name) const {
    return std::make_unique<Child>(
        std::vector<std::string>{LARDER_OPERATOR, "--kubeconfig", plane_->kubeconfig_of(name),
                                 "--namespace=larder", "--image=larder:1", "--identity=" + name,
                                 "--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0",
                                 "--webhook-address=127.0.0.1:0"},
        log_of(name));
  }
  std::string log_of(const std::string& name) const {
    return plane_->folder() + "/" + name + ".log";
  }

  struct Write {
    std::string what;  // "pods", "cachepools/status"
    std::string text;  // for who reads that there was one
  };
  // The writes of this user, of every kind; a refused request has written no object.
  std::vector<Write> writes_by(const std::string& user) const {
    std::vector<Write> writes;
    std::istringstream record(test::text_of(plane_->audit_log()));
    for (std::string line; std::getline(record, line);) {
      if (line.find("\"username\":\"" + user + "\"") == std::string::npos) continue;
      const Result<Object> entry = api::parse_json(line);
      if (!entry.ok() || api::number_at(*entry, "responseStatus.code") >= 400) continue;
      const std::string part = api::text_at(*entry, "objectRef.subresource");
      writes.push_back(
          {api::text_at(*entry, "objectRef.resource") + (part.empty() ? "" : "/" + part),
           api::text_at(*entry, "verb") + " " + api::text_at(*entry, "requestURI")});
    }
    return writes;
  }
  std::set<std::string> kinds_by(const std::string& user) const {
    std::set<std::string> kinds;
    for (const Write& write : writes_by(user)) kinds.insert(write.what);
    return kinds;
  }
  // Once the operator has led and has only its lease left to write.
  bool await_settled(const std::string& user) const {
    const auto but_leases = [&] {
      return std::ranges::count_if(writes_by(user),
                                   [](const Write& write) { return write.what != "leases"; });
    };
    const double waited = await([&] {
      const auto before = but_leases();
      if (before == 0) return false;
      std::this_thread::sleep_for(seconds(3));
      return but_leases() == before;
    });
    return waited >= 0;
  }
  bool has_secret() {
    return client().get(resources::kSecrets, "larder", "larder-webhook-tls").ok();
  }
};

// FENCE_SECONDS=60 sets the length of the stop.
// covers F-235
TEST_F(OperatorFenceTest, AStoppedLeaderWritesNothingAfterwards) {
  const std::set<std::string> all{"cachepools/status",
                                  "configmaps",
                                  "daemonsets",
                                  "events",
                                  "leases",
                                  "secrets",
                                  "mutatingwebhookconfigurations"};
  const char* given = std::getenv("FENCE_SECONDS");
  const auto first = replica("stopped");
  ASSERT_GE(await([&] { return std::ranges::includes(kinds_by("stopped"), all); }), 0)
      << test::text_of(log_of("stopped"));
  first->signal(SIGSTOP);
  const auto began = steady_clock::now();
  const auto second = replica("follower");
  ASSERT_TRUE(await_settled("follower")) << test::text_of(log_of("follower"));
  if (given != nullptr) std::this_thread::sleep_until(began + seconds(std::atoi(given)));
  const std::vector<Write> before = writes_by("stopped");
  const auto statuses = std::ranges::count(before, "cachepools/status", &Write::what);
  std::printf("stopped after %zu writes, %d of them statuses of %d pools\n", before.size(),
              static_cast<int>(statuses), kFencedPools);
  EXPECT_LT(statuses, kFencedPools) << "it had no status more to write";

  // The certificate manager has work, too: the manager looks every 10 s, and this time has passed
  // for the stopped one.
  ASSERT_TRUE(client().remove(resources::kSecrets, "larder", "larder-webhook-tls", "").ok());
  first->signal(SIGCONT);
  EXPECT_GE(await([&] {
              return test::text_of(log_of("stopped")).find("no longer leads") != std::string::npos;
            }),
            0);
  EXPECT_GE(await([&] { return has_secret(); }), 0) << "who leads makes it anew";
  std::this_thread::sleep_for(seconds(3));
  const std::vector<Write> after = writes_by("stopped");
  for (std::size_t i = before.size(); i < after.size(); ++i)
    ADD_FAILURE() << "it wrote: " << after[i].text;
}

}  // namespace
}  // namespace larder::kube_test
