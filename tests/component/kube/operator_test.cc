// The real larder-operator at a real API server: its objects, its messages, its lead and its end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "operator/api/names.h"
#include "shim/base/fd.h"
#include "tests/component/kube/await.h"
#include "tests/component/kube/kube_test.h"
#include "tests/component/kube/larder_definitions.h"
#include "tests/exported_metrics.h"
#include "tests/unit/text_file.h"

namespace larder::kube_test {
namespace {

using api::Object;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
namespace resources = k8s::resources;

class OperatorTest : public KubeTest {
 protected:
  static void SetUpTestSuite() {
    KubeTest::SetUpTestSuite();
    if (plane_ == nullptr) return;
    const Connection connection(*plane_);
    const Status installed = install_definitions(*connection.client, {"ml", "larder", "going"});
    ASSERT_TRUE(installed.ok()) << installed.to_string();
  }
  // A lease of each test's own, so that one does not wait for another's to end.
  std::unique_ptr<Child> replica(const std::string& name,
                                 const std::string& metrics = "127.0.0.1:0") const {
    return std::make_unique<Child>(
        std::vector<std::string>{LARDER_OPERATOR, "--kubeconfig", plane_->kubeconfig(),
                                 "--namespace=larder", "--image=larder:1", "--identity=" + name,
                                 "--metrics-address=" + metrics, "--health-address=127.0.0.1:0",
                                 "--webhook-address=127.0.0.1:0", "--lease-name=" + lease_name()},
        plane_->folder() + "/" + name + ".log");
  }
  static std::string lease_name() {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name;
  }
  Object put(const k8s::Resource& resource, const std::string& name, const char* spec,
             const char* ns = "ml") {
    const Result<Object> made =
        client().create(resource, {{"apiVersion", resource.group + "/" + resource.version},
                                   {"kind", resource.kind},
                                   {"metadata", {{"name", name}, {"namespace", ns}}},
                                   {"spec", Object::parse(spec)}});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : Object();
  }
  // "True NoPods", as `kubectl wait` would see the condition.
  std::string condition(const k8s::Resource& resource, const std::string& name,
                        const std::string& type) {
    const Result<Object> found = client().get(resource, "ml", name);
    if (!found.ok()) return "";
    for (const Object& one : api::at(*found, "status.conditions"))
      if (api::text_at(one, "type") == type)
        return api::text_at(one, "status") + " " + api::text_at(one, "reason");
    return "";
  }
  std::string version(const k8s::Resource& resource, const std::string& name) {
    const Result<Object> found = client().get(resource, "ml", name);
    return found.ok() ? api::text_at(*found, "metadata.resourceVersion") : "";
  }
  // Whether there is one Event of this reason about the object.
  bool told(const std::string& name, const std::string& reason) {
    const Result<k8s::List> events =
        client().list(resources::kEvents, {.ns = "ml", .labels = "", .fields = ""});
    return events.ok() && 1 == std::ranges::count_if(events->items, [&](const Object& event) {
                            return api::text_at(event, "regarding.name") == name &&
                                   api::text_at(event, "reason") == reason;
                          });
  }

  bool gone(const k8s::Resource& resource, const std::string& ns, const std::string& name) {
    return client().get(resource, ns, name).status().code() == Code::kNotFound;
  }
  // "freeing" once the pool's pods are to free its memory.
  std::string pods_are(const std::string& set) {
    const Result<Object> found = client().get(resources::kDaemonSets, "ml", set);
    return found.ok() ? api::annotation(api::at(*found, "spec.template"), api::kRestartAnnotation)
                            .value_or("")
                      : "";
  }
  // The work of the DaemonSet's controller and a kubelet, which are not here: one pod of the
  // present template, with a good end.
  void run_on_one_node(const std::string& set) {
    const Result<Object> there = client().get(resources::kDaemonSets, "ml", set);
    ASSERT_TRUE(there.ok());
    Object pod = api::at(*there, "spec.template");
    pod.update({{"apiVersion", "v1"}, {"kind", "Pod"}});
    pod["metadata"].update({{"name", set + "-pod"}, {"namespace", "ml"}});
    pod["spec"]["nodeName"] = "node-a";
    const Result<Object> made = client().create(resources::kPods, pod);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    const Object ended{{"name", api::kSidecarContainer},
                       {"image", "larder:1"},
                       {"imageID", ""},
                       {"ready", false},
                       {"restartCount", 0},
                       {"state", {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}}}};
    pod["status"] = {{"phase", "Running"}, {"containerStatuses", Object::array({ended})}};
    const Object counts{{"observedGeneration", (*there)["metadata"]["generation"]},
                        {"desiredNumberScheduled", 1},
                        {"currentNumberScheduled", 1},
                        {"numberMisscheduled", 0},
                        {"numberReady", 0}};
    for (const auto& [resource, object] :
         {std::pair{resources::kPods,
                    Object{{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"metadata", {{"name", set + "-pod"}, {"namespace", "ml"}}},
                           {"status", pod["status"]}}},
          std::pair{resources::kDaemonSets,
                    Object{{"apiVersion", "apps/v1"},
                           {"kind", "DaemonSet"},
                           {"metadata", {{"name", set}, {"namespace", "ml"}}},
                           {"status", counts}}}}) {
      const Result<Object> said = client().apply(resource, object, "status");
      ASSERT_TRUE(said.ok()) << said.status().to_string();
    }
  }
};

// The log is a full pipe without a reader.
// covers F-107
TEST_F(OperatorTest, UnreadLogDelaysNoWork) {
  const std::string log = plane_->folder() + "/unread.log";
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  const Fd pipe(::open(log.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ASSERT_TRUE(pipe.valid());
  while (::write(pipe.get(), ".", 1) == 1) {
  }
  const auto one = replica("unread");
  for (int i = 0; i < 5; ++i)
    put(resources::kPools, "unread-" + std::to_string(i),
        R"({"placement": "Node", "memory": {"size": "1Gi"}})");
  for (int i = 0; i < 5; ++i) {
    const std::string name = "unread-" + std::to_string(i);
    EXPECT_GE(await([&] {
                return condition(resources::kPools, name, "ObjectsApplied") == "True Applied";
              }),
              0)
        << name;
  }
  const auto began = steady_clock::now();
  one->signal(SIGTERM);
  EXPECT_EQ(one->wait(), 0);
  EXPECT_LE(steady_clock::now() - began, seconds(20));
}

// Against the real server's defaults and forms: no object is applied twice.
TEST_F(OperatorTest, AppliedObjectsAreNotAppliedAgain) {
  const auto one = replica("quiet");
  put(resources::kPools, "node-pool", R"({"placement": "Node", "memory": {"size": "1024Mi"},
      "resources": {"requests": {"cpu": "0.5"}, "limits": {"cpu": 1}}, "node": {"tolerations": [{"operator": "Exists"}]}})");
  put(resources::kBackends, "server",
      R"({"managed": {"memory": "1024Mi", "resources": {"requests": {"cpu": "0.25"}}}})");
  ASSERT_GE(await([&] {
              return condition(resources::kPools, "node-pool", "ObjectsApplied") == "True Applied";
            }),
            0);
  ASSERT_GE(await([&] {
              return condition(resources::kBackends, "server", "ObjectsApplied") == "True Applied";
            }),
            0);
  const std::vector<std::pair<k8s::Resource, std::string>> made{
      {resources::kDaemonSets, "larder-node-pool"},  {resources::kConfigMaps, "larder-node-pool"},
      {resources::kStatefulSets, "larder-server"},   {resources::kServices, "larder-server"},
      {resources::kConfigMaps, "larder.server"},     {resources::kBudgets, "larder-server"},
      {resources::kNetworkPolicies, "larder-server"}};
  std::vector<std::string> versions;
  for (const auto& [resource, name] : made) {
    versions.push_back(version(resource, name));
    EXPECT_NE(versions.back(), "") << resource.kind << " " << name;
  }
  // Looked at anew, after the touch.
  const auto touch = [&](const k8s::Resource& resource, const char* name, const char* text) {
    EXPECT_TRUE(
        client()
            .merge(resource, "ml", name, {{"metadata", {{"annotations", {{"touched", text}}}}}})
            .ok());
  };
  const std::string log = plane_->folder() + "/quiet.log";
  const auto applied = [&] {
    std::ifstream file(log);
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);)
      lines += line.find("applying ") != std::string::npos ? 1 : 0;
    return lines;
  };
  const std::size_t before = applied();
  EXPECT_EQ(before, made.size());
  for (const char* text : {"1", "2", "3"}) {
    touch(resources::kPools, "node-pool", text);
    touch(resources::kBackends, "server", text);
    std::this_thread::sleep_for(milliseconds(700));
  }
  EXPECT_EQ(applied(), before);
  for (std::size_t i = 0; i < made.size(); ++i)
    EXPECT_EQ(version(made[i].first, made[i].second), versions[i]) << made[i].second;

  // Drift is repaired, others' fields stay.
  EXPECT_TRUE(
      client()
          .merge(resources::kDaemonSets, "ml", "larder-node-pool",
                 Object::parse(
                     R"({"metadata": {"labels": {"theirs": "x"}}, )"
                     R"("spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}})"))
          .ok());
  EXPECT_GE(
      await([&] {
        const Result<Object> set = client().get(resources::kDaemonSets, "ml", "larder-node-pool");
        return set.ok() && api::text_at(*set, "spec.updateStrategy.type") == "RollingUpdate" &&
               api::label(*set, "theirs") == "x";
      }),
      0);
}

// A port that was free a moment ago.
std::uint16_t free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// The answer of GET /metrics there; empty: no answer.
std::string scrape(std::uint16_t port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_zero = {}};
  constexpr std::string_view kGet =
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::string answer;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return answer;
  if (::send(fd.get(), kGet.data(), kGet.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kGet.size()))
    return answer;
  char part[4096];
  for (ssize_t count = 0; (count = ::recv(fd.get(), part, sizeof(part), 0)) > 0;)
    answer.append(part, static_cast<std::size_t>(count));
  return answer;
}

TEST_F(OperatorTest, ExportsExactlyTheDocumentedMetrics) {
  const std::uint16_t port = free_port();
  const auto one = replica("measured", "127.0.0.1:" + std::to_string(port));
  put(resources::kPools, "measured", R"({"memory": {"size": "1Gi"}})");
  ASSERT_GE(
      await([&] { return condition(resources::kPools, "measured", "Ready") == "True NoPods"; }), 0);
  const std::set<std::string> page = test::families_of_page(
      test::text_of(REPOSITORY_ROOT "/docs/reference/metrics.md"), "larder-operator");
  EXPECT_GT(page.size(), 30U);
  EXPECT_GE(await([&] { return test::families_of_scrape(scrape(port)) == page; }), 0);
  EXPECT_EQ(test::families_of_scrape(scrape(port)), page);
}

TEST_F(OperatorTest, StatusReportsProblems) {
  const auto one = replica("saying");
  put(resources::kPools, "lonely",
      R"({"memory": {"size": "1Gi"}, "backendRef": {"name": "nowhere"}})");
  EXPECT_GE(await([&] {
              return condition(resources::kPools, "lonely", "Ready") == "False NoSuchBackend";
            }),
            0);
  EXPECT_GE(await([&] { return told("lonely", "NoSuchBackend"); }), 0) << "an Event";
  put(resources::kBackends, "nowhere",
      R"({"endpoints": ["127.0.0.1:1"], "password": {"name": "auth"}})");
  EXPECT_GE(await([&] {
              return condition(resources::kPools, "lonely", "SecretMissing") == "True NotFound";
            }),
            0);
  EXPECT_TRUE(
      client()
          .create(resources::kSecrets, {{"apiVersion", "v1"},
                                        {"kind", "Secret"},
                                        {"metadata", {{"name", "auth"}, {"namespace", "ml"}}},
                                        {"data", {{"password", "c2VjcmV0"}}}})
          .ok());
  EXPECT_GE(
      await([&] { return condition(resources::kBackends, "nowhere", "Ready") == "False Refused"; }),
      0);
  EXPECT_GE(
      await([&] { return condition(resources::kPools, "lonely", "Ready") == "False Refused"; }), 0);
}

TEST_F(OperatorTest, SecondReplicaTakesOverAndBothEndInTime) {
  const auto first = replica("first");
  put(resources::kPools, "led", R"({"memory": {"size": "1Gi"}})");
  ASSERT_GE(await([&] { return condition(resources::kPools, "led", "Ready") == "True NoPods"; }),
            0);
  const auto second = replica("second");
  std::this_thread::sleep_for(seconds(3));
  first->signal(SIGKILL);
  put(resources::kPools, "followed", R"({"memory": {"size": "1Gi"}})");
  const double waited =
      await([&] { return condition(resources::kPools, "followed", "Ready") == "True NoPods"; });
  std::printf("another acts after SIGKILL: %.1f s\n", waited);
  EXPECT_GE(waited, 0);
  EXPECT_LE(waited, 20);

  const auto third = replica("third");
  std::this_thread::sleep_for(seconds(2));
  const auto began = steady_clock::now();
  second->signal(SIGTERM);
  EXPECT_EQ(second->wait(), 0);
  EXPECT_LE(std::chrono::duration<double>(steady_clock::now() - began).count(), 5);
  put(resources::kPools, "handed-on", R"({"memory": {"size": "1Gi"}})");
  const double handed =
      await([&] { return condition(resources::kPools, "handed-on", "Ready") == "True NoPods"; });
  std::printf("another acts after SIGTERM: %.1f s\n", handed);
  EXPECT_GE(handed, 0);
  EXPECT_LE(handed, 10);
}

// The end of a pool of placement Node is held until its nodes' memory is free; the leader that
// began the end may be gone meanwhile.
// covers F-228
TEST_F(OperatorTest, DeletedPoolIsRemovedAfterItsNodesFreedMemory) {
  auto one = replica("freeing-first");
  put(resources::kPools, "held", R"({"placement": "Node", "memory": {"size": "1Gi"}})");
  ASSERT_GE(await([&] {
              return condition(resources::kPools, "held", "ObjectsApplied") == "True Applied";
            }),
            0);
  EXPECT_EQ(api::at(*client().get(resources::kPools, "ml", "held"), "metadata.finalizers"),
            Object({api::kMemoryFinalizer}));
  one->signal(SIGKILL);
  ASSERT_TRUE(client().remove(resources::kPools, "ml", "held", "").ok());
  one = replica("freeing-second");
  ASSERT_GE(await([&] { return pods_are("larder-held") == "freeing"; }), 0);
  EXPECT_FALSE(gone(resources::kPools, "ml", "held"));
  run_on_one_node("larder-held");
  EXPECT_GE(await([&] { return gone(resources::kPools, "ml", "held"); }), 0);
  EXPECT_FALSE(told("held", "MemoryNotFreed"));
}

TEST_F(OperatorTest, DeletedNamespaceDoesNotWaitForMemory) {
  const auto one = replica("leaving");
  put(resources::kPools, "held", R"({"placement": "Node", "memory": {"size": "1Gi"}})", "going");
  ASSERT_GE(await([&] { return !gone(resources::kDaemonSets, "going", "larder-held"); }), 0);
  const k8s::Resource namespaces{"", "v1", "namespaces", "Namespace", false};
  ASSERT_TRUE(client().remove(namespaces, "", "going", "").ok());
  // Like the controller, which is not here.
  ASSERT_TRUE(client().remove(resources::kPools, "going", "held", "").ok());
  ASSERT_TRUE(client().remove(resources::kDaemonSets, "going", "larder-held", "").ok());
  const double waited = await([&] { return gone(resources::kPools, "going", "held"); });
  std::printf("a pool of a deleted namespace goes after %.1f s\n", waited);
  EXPECT_GE(waited, 0);
}

// Takes connections, at every address of this machine, and sends no byte.
class SilentServer {
 public:
  SilentServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_ANY)}, .sin_zero = {}};
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_.get(), SOMAXCONN), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  std::uint16_t port() const { return port_; }
  // Since the last question.
  std::size_t new_connections() const {
    const std::size_t before = taken_.size();
    for (Fd one(::accept(fd_.get(), nullptr, nullptr)); one.valid();
         one = Fd(::accept(fd_.get(), nullptr, nullptr)))
      taken_.push_back(std::move(one));
    return taken_.size() - before;
  }

 private:
  const Fd fd_;
  std::uint16_t port_ = 0;
  mutable std::vector<Fd> taken_;
};

// No answer comes, not even a refusal.
// covers F-227, F-249
TEST_F(OperatorTest, EndsInTimeDuringBackendCheck) {
  const auto one = replica("busy");
  put(resources::kBackends, "silent", R"({"endpoints": ["192.0.2.1:6379"]})");
  std::this_thread::sleep_for(seconds(4));
  const auto began = steady_clock::now();
  one->signal(SIGTERM);
  EXPECT_EQ(one->wait(), 0);
  EXPECT_LE(std::chrono::duration<double>(steady_clock::now() - began).count(), 5);
}

// An operator without the lease has ended its work: no work delays a SIGTERM, and no server is
// asked any more.
// covers F-227
TEST_F(OperatorTest, EndsInTimeAfterLeaseLossDuringBackendCheck) {
  const SilentServer silent;
  const auto one = replica("loser");
  Object endpoints = Object::array();  // each costs the check 3 s
  for (int i = 1; i <= 6; ++i)
    endpoints.push_back("127.0.0." + std::to_string(i) + ":" + std::to_string(silent.port()));
  put(resources::kBackends, "cluster",
      Object{{"mode", "Cluster"}, {"endpoints", endpoints}}.dump().c_str());
  ASSERT_GE(await([&] { return silent.new_connections() > 0; }), 0);
  const Object taken{{"spec", {{"holderIdentity", "somebody-else"}, {"leaseDurationSeconds", 60}}}};
  ASSERT_TRUE(client().merge(resources::kLeases, "larder", lease_name(), taken).ok());
  const std::string log = plane_->folder() + "/loser.log";
  ASSERT_GE(await([&] { return test::text_of(log).find("no longer leads") != std::string::npos; }),
            0);
  one->signal(SIGTERM);
  silent.new_connections();
  EXPECT_EQ(one->wait(), 0);
  EXPECT_LE(silent.new_connections(), 1) << "one was just being made:\n" << test::text_of(log);
}

}  // namespace
}  // namespace larder::kube_test
