#include "tests/bench/operator_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "operator/api/names.h"
#include "operator/k8s/yaml_object.h"
#include "operator/webhook/inject.h"

namespace larder::bench {
namespace {

using api::Object;
namespace resources = k8s::resources;

constexpr int kAtOnce = 8;
const k8s::Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
const k8s::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string new_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "operator-bench-XXXXXX").string();
  return ::mkdtemp(name.data()) == nullptr ? "" : name;
}

Object engine_pod(int i, const std::string& pool) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", "engine-" + std::to_string(i)},
            {"namespace", kNamespace},
            {"annotations", {{std::string(api::kPoolAnnotation), pool}}}}},
          {"spec",
           {{"nodeName", "node-" + std::to_string(i % 100)},
            {"containers", Object::array({Object{{"name", "vllm"},
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

Status run_pod(k8s::ApiClient& client, int i, int pools) {
  const std::string name = pool_name(i % pools);
  Result<Object> stored = client.get(resources::kPools, kNamespace, name);
  if (!stored.ok()) return stored.status();
  Result<api::CachePool> pool = api::parse_pool(*stored);
  if (!pool.ok()) return pool.status();
  const Object plain = engine_pod(i, name);
  const webhook::Injection injection =
      webhook::inject({plain, kNamespace, name, *pool, std::nullopt, {.image = "larder:1", .operator_namespace = "larder"}});
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

OperatorCluster::OperatorCluster(std::string programs, std::string repository)
    : programs_(std::move(programs)), repository_(std::move(repository)), folder_(new_folder()) {
  if (folder_.empty()) give_up("no temporary folder");
  const std::string up = repository_ + "/tests/component/kube/apiserver.sh up " + folder_ + "/cluster";
  if (std::system(up.c_str()) != 0) give_up("apiserver.sh failed");
  auto credentials = k8s::CredentialSource::from_kubeconfig(folder_ + "/cluster/admin.kubeconfig");
  if (!credentials.ok()) give_up(credentials.status().text());
  credentials_ = std::move(*credentials);
  transport_ = std::make_unique<k8s::CurlTransport>(*credentials_, clock_);
  client_ = std::make_unique<k8s::HttpClient>(*transport_, clock_);
  install();
  larderd_ = start({programs_ + "/larderd"}, "larderd.log",
                   {"LARDER_SOCKET=" + folder_ + "/larder.sock", "LARDER_HTTP_LISTEN=0.0.0.0:9464", "LARDER_MEMORY_SIZE=64MiB",
                    "LARDER_MEMORY_SHM_NAME=operator-bench-" + std::to_string(::getpid()), "LARDER_MEMORY_KEEP_ON_EXIT=false"});
}

OperatorCluster::~OperatorCluster() {
  for (const pid_t pid : {operator_, larderd_}) {
    if (pid == 0) continue;
    ::kill(pid, SIGTERM);
    ::waitpid(pid, nullptr, 0);
  }
  const std::string down = repository_ + "/tests/component/kube/apiserver.sh down " + folder_ + "/cluster";
  if (std::system(down.c_str()) != 0) std::fprintf(stderr, "apiserver.sh down failed: %s stays\n", folder_.c_str());
  if (!failed_) std::filesystem::remove_all(folder_);
}

void OperatorCluster::give_up(const std::string& why) {
  std::fprintf(stderr, "operator_bench: %s\n", why.c_str());
  std::exit(1);
}
void OperatorCluster::fail(const std::string& why) {
  std::fprintf(stderr, "operator_bench: %s (logs: %s)\n", why.c_str(), folder_.c_str());
  failed_ = true;
}

void OperatorCluster::install() {
  for (const char* ns : {kNamespace, "larder"})
    if (const auto made =
            client_->create(kNamespaces, {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
        !made.ok())
      give_up(made.status().to_string());
  for (const auto& file : std::filesystem::directory_iterator(repository_ + "/manifests/crds")) {
    const Result<Object> definition = k8s::parse_yaml(text_of(file.path()));
    if (!definition.ok()) give_up(file.path().string() + ": " + definition.status().text());
    if (const auto made = client_->create(kDefinitions, *definition); !made.ok()) give_up(made.status().to_string());
  }
  for (int i = 0; i < 100 && !client_->list(resources::kPools, {}).ok(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

pid_t OperatorCluster::start(const std::vector<std::string>& words, const std::string& log,
                             const std::vector<std::string>& environment) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = ::open((folder_ + "/" + log).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(file, STDERR_FILENO);
  for (const std::string& variable : environment)
    ::setenv(variable.substr(0, variable.find('=')).c_str(), variable.substr(variable.find('=') + 1).c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

void OperatorCluster::start_operator() {
  operator_ = start({programs_ + "/larder-operator", "--kubeconfig=" + folder_ + "/cluster/admin.kubeconfig",
                     "--namespace=larder", "--image=larder:1", "--identity=bench", "--metrics-address=127.0.0.1:0",
                     "--health-address=127.0.0.1:0", "--webhook-address=127.0.0.1:0"},
                    "operator.log");
}

void OperatorCluster::each(int count, const std::function<Status(k8s::ApiClient&, int)>& work) {
  std::atomic<int> next{0}, wrong{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kAtOnce; ++i)
    threads.emplace_back([&] {
      for (int at = next++; at < count; at = next++)
        if (const Status status = work(*client_, at); !status.ok() && wrong++ == 0)
          std::fprintf(stderr, "operator_bench: %s\n", status.to_string().c_str());
    });
  threads.clear();
  if (wrong > 0) fail(std::to_string(wrong) + " of " + std::to_string(count) + " calls failed");
}

double OperatorCluster::operator_rss_mib() const {
  std::ifstream file("/proc/" + std::to_string(operator_) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6) / 1024;
  return 0;
}

double OperatorCluster::operator_cpu_s() const {
  std::ifstream file("/proc/" + std::to_string(operator_) + "/stat");
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
