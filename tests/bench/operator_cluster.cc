#include "tests/bench/operator_cluster.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "operator/api/names.h"
#include "operator/reconcile/fetch.h"
#include "operator/webhook/inject/inject.h"
#include "tests/component/kube/larder_definitions.h"
#include "tests/component/server_process.h"

namespace larder::bench {
namespace {

using api::Object;
namespace resources = k8s::resources;

constexpr int kAtOnce = 8;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "operator_bench: %s\n", why.c_str());
  std::exit(1);
}

std::string node_name(int i) {
  return "node-" + std::to_string(i);
}

Object engine_pod(int i, const std::string& pool) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", "engine-" + std::to_string(i)},
            {"namespace", kNamespace},
            {"annotations", {{std::string(api::kPoolAnnotation), pool}}}}},
          {"spec",
           {{"nodeName", node_name(i % kNodes)},
            {"containers",
             Object::array({Object{{"name", "vllm"},
                                   {"image", "vllm:1"},
                                   {"command", {"vllm", "serve", "/model", "--port", "8000"}},
                                   {"env", {{{"name", "HF_HUB_OFFLINE"}, {"value", "1"}}}}}})}}}};
}

// Any address of this machine's 127.0.0.0/8: larderd listens on all.
Object running(int i) {
  Object larderd = {{"name", api::kSidecarContainer},
                    {"image", "larder:1"},
                    {"imageID", ""},
                    {"ready", true},
                    {"started", true},
                    {"restartCount", 0},
                    {"state", {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}}}};
  return {{"phase", "Running"},
          {"podIP", "127.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1)},
          {"initContainerStatuses", Object::array({std::move(larderd)})}};
}

}  // namespace

std::string pool_name(int i) {
  return "pool-" + std::to_string(i);
}

Object plain_pool(int i) {
  return {{"apiVersion", "larder.dev/v1alpha1"},
          {"kind", "CachePool"},
          {"metadata", {{"name", pool_name(i)}, {"namespace", kNamespace}}},
          {"spec", {{"memory", {{"size", "1Gi"}}}}}};
}

Status make_node(k8s::ApiClient& client, int i) {
  const k8s::Resource nodes{"", "v1", "nodes", "Node", false};
  const Object node{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node_name(i)}}}};
  return client.create(nodes, node).status();
}

Status run_pod(k8s::ApiClient& client, int i, int pools) {
  const std::string name = pool_name(i % pools);
  Result<Object> stored = client.get(resources::kPools, kNamespace, name);
  if (!stored.ok()) return stored.status();
  Result<api::CachePool> pool = api::parse_pool(*stored);
  if (!pool.ok()) return pool.status();
  const Object plain = engine_pod(i, name);
  const webhook::Injection injection =
      webhook::inject({plain,
                       kNamespace,
                       name,
                       *pool,
                       std::nullopt,
                       {.image = "larder:1", .operator_namespace = "larder"}});
  if (!injection.refused.empty()) return {Code::kInternal, injection.refused};
  const Result<Object> made = client.create(resources::kPods, plain.patch(injection.patch));
  if (!made.ok()) return made.status();
  return client
      .apply(resources::kPods,
             {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", api::name_of(plain)}, {"namespace", kNamespace}}},
              {"status", running(i)}},
             "status")
      .status();
}

OperatorCluster::OperatorCluster(std::string programs)
    : programs_(std::move(programs)), plane_(kube_test::ControlPlane::start()) {
  if (!plane_) give_up("no kube-apiserver here: .ci/kubernetes.sh apiserver");
  connection_ = std::make_unique<kube_test::Connection>(*plane_);
  if (const Status installed = kube_test::install_definitions(client(), {kNamespace, "larder"});
      !installed.ok())
    give_up(installed.to_string());
  const std::string& folder = plane_->folder();
  larderd_ = std::make_unique<kube_test::Child>(
      std::vector<std::string>{
          "/usr/bin/env", "LARDER_SOCKET=" + folder + "/larder.sock",
          "LARDER_HTTP_LISTEN=0.0.0.0:9464", "LARDER_MEMORY_SIZE=64MiB",
          "LARDER_MEMORY_SHM_NAME=operator-bench-" + std::to_string(::getpid()),
          "LARDER_MEMORY_KEEP_ON_EXIT=false", programs_ + "/larderd"},
      folder + "/larderd.log");
}

// larderd is asked to end, so that its arena goes too.
OperatorCluster::~OperatorCluster() {
  larderd_->signal(SIGTERM);
  larderd_->wait();
}

void OperatorCluster::start_operator() {
  metrics_port_ = test::free_port();
  operator_ = std::make_unique<kube_test::Child>(
      std::vector<std::string>{programs_ + "/larder-operator",
                               "--kubeconfig=" + plane_->kubeconfig(), "--namespace=larder",
                               "--image=larder:1", "--identity=bench",
                               "--metrics-address=127.0.0.1:" + std::to_string(metrics_port_),
                               "--health-address=127.0.0.1:0", "--webhook-address=127.0.0.1:0"},
      plane_->folder() + "/operator.log");
}

// By SIGTERM: the operator gives its lease back.
void OperatorCluster::stop_operator() {
  operator_->signal(SIGTERM);
  operator_->wait();
}

double OperatorCluster::operator_calls() const {
  constexpr std::size_t kMostBytes = 4 << 20;
  const std::string url = "http://127.0.0.1:" + std::to_string(metrics_port_) + "/metrics";
  double calls = 0;
  reconcile::Fetch::make()->get_all(
      {&url, 1}, kMostBytes, {}, [&](std::size_t, const Result<std::string>& body) {
        std::istringstream lines(body.ok() ? *body : "");
        for (std::string line; std::getline(lines, line);)
          if (line.starts_with("rest_client_requests_total{"))
            calls += std::atof(line.substr(line.rfind(' ') + 1).c_str());
      });
  return calls;
}

void OperatorCluster::fail(const std::string& why) {
  std::fprintf(stderr, "operator_bench: %s\n", why.c_str());
  failed_ = true;
}

void OperatorCluster::each(int count, const std::function<Status(k8s::ApiClient&, int)>& work) {
  std::atomic<int> next{0}, wrong{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kAtOnce; ++i)
    threads.emplace_back([&] {
      for (int at = next++; at < count; at = next++)
        if (const Status status = work(client(), at); !status.ok() && wrong++ == 0)
          std::fprintf(stderr, "operator_bench: %s\n", status.to_string().c_str());
    });
  threads.clear();
  if (wrong > 0) fail(std::to_string(wrong) + " of " + std::to_string(count) + " calls failed");
}

double OperatorCluster::operator_rss_mib() const {
  std::ifstream file("/proc/" + std::to_string(operator_->pid()) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6) / 1024;
  return 0;
}

double OperatorCluster::operator_cpu_s() const {
  std::ifstream file("/proc/" + std::to_string(operator_->pid()) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < 11; ++i) fields >> field;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace larder::bench
