// Every golden pod, created at a real API server that asks the injector. The API server applies the
// patch to the pod with its own defaults, checks schema and values, and enforces Pod Security as
// strictly as the pod's namespace allowed before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <thread>

#include "operator/api/names.h"
#include "operator/reconcile/subset.h"
#include "operator/webhook/admission_server.h"
#include "operator/webhook/certificate_loader.h"
#include "operator/webhook/certificate_manager.h"
#include "operator/webhook/review.h"
#include "tests/component/kube/api_server.h"
#include "tests/component/kube/webhook_configuration.h"
#include "tests/unit/operator/webhook/inject/golden_case.h"

namespace larder::test {
namespace {

using api::Object;
namespace fs = std::filesystem;

[[maybe_unused]] const ApiServer& started = api_server();

// The pod for the API server: defaults of the server go, and references to missing objects.
Object submitted(Object pod, const std::string& ns, const std::string& name) {
  Object& metadata = pod["metadata"];
  for (const char* key :
       {"generateName", "ownerReferences", "uid", "resourceVersion", "creationTimestamp"})
    metadata.erase(key);
  metadata["name"] = name;
  metadata["namespace"] = ns;
  for (const char* key : {"priority", "preemptionPolicy"}) pod["spec"].erase(key);
  for (const char* list : {"containers", "initContainers"}) {
    if (!pod["spec"].contains(list) || !pod["spec"][list].is_array()) continue;
    for (Object& container : pod["spec"][list])
      if (!container.contains("image")) container["image"] = "registry.example/any:1";
  }
  return pod;
}

struct Golden {
  std::string name;  // of the case, and of the pod here
  InjectionCase one;
  std::string level;  // the strictest level that takes the unchanged pod
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  for (const std::string& name : golden_names(REPOSITORY_ROOT))
    all.push_back({name, golden_case(REPOSITORY_ROOT, name).one, ""});
  return all;
}

// The API server's answers to all pods at once, in that namespace.
std::string answer_to(const Object& pods) {
  const fs::path file =
      fs::temp_directory_path() / ("larder-inject-" + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << Object({{"apiVersion", "v1"}, {"kind", "List"}, {"items", pods}}).dump();
  const Outcome outcome = api_server().kubectl("create --dry-run=server -f " + file.string());
  fs::remove(file);
  return outcome.text;
}

bool accepted(const std::string& answer, const std::string& name) {
  return answer.find("pod/" + name + " created (server dry run)") != std::string::npos;
}

// Sets the level of each: placement Node needs hostPath, as its page says.
void find_levels(std::vector<Golden>& all) {
  for (const std::string level : {"restricted", "baseline", "privileged"}) {
    const Outcome made = api_server().kubectl("create namespace " + level);
    ASSERT_EQ(made.status, 0) << made.text;
    const Outcome labelled = api_server().kubectl("label namespace " + level +
                                                  " pod-security.kubernetes.io/enforce=" + level);
    ASSERT_EQ(labelled.status, 0) << labelled.text;
    Object pods = Object::array();
    for (const Golden& golden : all)
      if (golden.level.empty()) pods.push_back(submitted(golden.one.pod, level, golden.name));
    const std::string answer = answer_to(pods);
    for (Golden& golden : all) {
      const bool on_node =
          golden.one.pool && golden.one.pool->spec.placement == api::Placement::kNode;
      if (golden.level.empty() && accepted(answer, golden.name) &&
          (!on_node || level == "privileged"))
        golden.level = level;
    }
  }
}

// Any pool is there: each golden pod has its own, which the injector gets by the pod's name.
class AnyPool final : public webhook::PoolLookup {
 public:
  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override {
    return api::CachePool{ns, name, "u", 1, {}};
  }
  Result<api::CacheBackend> backend(const std::string&, const std::string&) override {
    return Status(Code::kNotFound, "none");
  }
  // Each namespace asks for its pods, so that the injector sees pods without an annotation too.
  webhook::Surroundings surroundings(const std::string&, bool) override {
    const Object ns = {{"metadata", {{"labels", {{std::string(api::kPoolLabel), "llama"}}}}}};
    return {std::make_shared<const Object>(ns), {}, {}};
  }
};

// The injector as a webhook of the API server's, from the constructor to the end of the program's
// API server.
class Injector {
 public:
  explicit Injector(const std::vector<Golden>& all) : connection_(api_server().plane()) {
    const auto inject = [&all](const webhook::Input& input) {
      const auto found = std::ranges::find(all, api::name_of(input.pod), &Golden::name);
      return found == all.end() ? webhook::inject(input) : found->one.inject(input.pod);
    };
    server_ = webhook::AdmissionServer::start(
                  options_, acceptor_,
                  webhook::PodReview(pools_, {"registry.example/larder:0.1.0", true}, inject,
                                     [](const webhook::PodReview::Left&) {}),
                  nullptr)
                  .value();
    const Status configured = kube_test::configure_webhooks(
        *connection_.client, {kube_test::webhook_entry("inject.larder.dev", server_->address())});
    EXPECT_TRUE(configured.ok()) << configured.to_string();
    webhook::CertificateManager manager(
        *connection_.client, {"default", "larder-tls", "localhost", "larder"}, connection_.clock,
        [] { return std::int64_t{std::time(nullptr)}; });
    const Status kept = manager.run_once();
    EXPECT_TRUE(kept.ok()) << kept.to_string();
    loader_ = std::make_unique<webhook::CertificateLoader>(
        webhook::certificate_in_secret(*connection_.client, "default", "larder-tls"), acceptor_,
        50);
  }

  Result<Object> create(const Object& pod) {
    return connection_.client->create(k8s::resources::kPods, pod);
  }

  // Until the API server acts on the configuration.
  bool await_called(const Object& pod) {
    for (int i = 0; i < 300; ++i) {
      const Result<Object> made = create(pod);
      if (made.ok() && (api::annotation(*made, api::kInjectedAnnotation) ||
                        api::annotation(*made, api::kNotInjectedAnnotation)))
        return true;
      EXPECT_TRUE(connection_.client
                      ->remove(k8s::resources::kPods, api::namespace_of(pod), api::name_of(pod))
                      .ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }

 private:
  const webhook::ServerOptions options_{.address = "127.0.0.1:0", .path = "/mutate-v1-pod"};
  kube_test::Connection connection_;
  AnyPool pools_;
  webhook::TlsAcceptor acceptor_;
  std::unique_ptr<webhook::AdmissionServer> server_;
  std::unique_ptr<webhook::CertificateLoader> loader_;
};

TEST(InjectAdmission, EveryGoldenPodIsPatchedAndStillAdmitted) {
  if (!api_server().missing().empty()) GTEST_SKIP() << api_server().missing();
  std::vector<Golden> all = goldens();
  ASSERT_GE(all.size(), 140u);
  for (const std::string name : {"nvidia", "kata"}) {
    const Object runtime = {{"apiVersion", "node.k8s.io/v1"},
                            {"kind", "RuntimeClass"},
                            {"metadata", {{"name", name}}},
                            {"handler", name}};
    const Outcome made = api_server().kubectl("create", runtime.dump());
    ASSERT_EQ(made.status, 0) << made.text;
  }
  find_levels(all);
  ASSERT_EQ(std::ranges::count(all, std::string(), &Golden::level), 0)
      << "some are no pods themselves";
  EXPECT_GE(std::ranges::count(all, std::string("restricted"), &Golden::level), 2);

  Injector injector(all);
  ASSERT_TRUE(injector.await_called(submitted(all.front().one.pod, all.front().level, "first")));
  for (const Golden& golden : all) {
    SCOPED_TRACE(golden.name + " under " + golden.level);
    EXPECT_FALSE(golden.one.pod_security == "restricted" && golden.level != "restricted");
    const Object pod = submitted(golden.one.pod, golden.level, golden.name);
    const Result<Object> created = injector.create(pod);
    ASSERT_TRUE(created.ok()) << created.status().to_string();
    const auto difference =
        reconcile::first_difference(*created, patched(pod, golden.one.inject(pod).patch));
    EXPECT_FALSE(difference) << *difference;
  }
  std::cout << all.size() << " pods, "
            << std::ranges::count(all, std::string("restricted"), &Golden::level)
            << " of them under restricted\n";
}

}  // namespace
}  // namespace larder::test
