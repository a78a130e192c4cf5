// A pod's namespace at a real kube-apiserver: the server's own LimitRanger and ResourceQuota, and a
// namespace that asks for its pods. Informers bring the facts, as in the operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "operator/webhook/admission_server.h"
#include "operator/webhook/certificate_loader.h"
#include "operator/webhook/certificate_manager.h"
#include "tests/component/kube/kube_test.h"
#include "tests/component/kube/webhook_configuration.h"
#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/reviews.h"

namespace larder::kube_test {
namespace {

using namespace webhook;
using api::Object;
using testing::HasSubstr;

std::unique_ptr<k8s::Informer> informer_of(k8s::ApiClient& client, const k8s::Resource& resource,
                                           const base::Clock& clock) {
  k8s::Informing informing;
  informing.resource = resource;
  informing.trim = trim_surroundings;
  return k8s::Informer::start(client, std::move(informing), clock);
}

// One pool of any name, beside the real facts of namespaces.
class PoolInRealNamespaces final : public PoolLookup {
 public:
  explicit PoolInRealNamespaces(Connection& connection)
      : namespaces_(informer_of(*connection.client, k8s::resources::kNamespaces, connection.clock)),
        limit_ranges_(
            informer_of(*connection.client, k8s::resources::kLimitRanges, connection.clock)),
        quotas_(informer_of(*connection.client, k8s::resources::kQuotas, connection.clock)),
        cached_(*namespaces_, *namespaces_, *connection.client,
                {namespaces_.get(), limit_ranges_.get(), quotas_.get()}) {}

  // The pool "class-NAME" has the RuntimeClass NAME, and "claim-NAME" a disk of the StorageClass
  // NAME; "claim" has a disk of the default class.
  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override {
    Object spec = {{"memory", {{"size", "4Gi"}}}};
    if (name.starts_with("class-"))
      spec.update({{"transfer", "sidecar"}, {"runtimeClassName", name.substr(6)}});
    if (name == "claim" || name.starts_with("claim-"))
      spec["disk"] = {{"size", "10Gi"},
                      {"volume", "ephemeral"},
                      {"storageClassName", name == "claim" ? "" : name.substr(6)}};
    return api::parse_pool(
        {{"metadata",
          {{"name", name}, {"namespace", ns}, {"uid", "6f1c8e6e-0000-4000-8000-000000000001"}}},
         {"spec", spec}});
  }
  Result<Object> runtime_class(const std::string& name) override {
    return cached_.runtime_class(name);
  }
  Result<Object> storage_class(const std::string& name) override {
    return cached_.storage_class(name);
  }
  Result<api::CacheBackend> backend(const std::string&, const std::string&) override {
    return Status(Code::kNotFound, "none");
  }
  Surroundings surroundings(const std::string& ns, bool decides) override {
    return cached_.surroundings(ns, decides);
  }

 private:
  std::unique_ptr<k8s::Informer> namespaces_, limit_ranges_, quotas_;
  CachedPools cached_;
};

class NamespaceTest : public KubeTest {
 protected:
  void prepare() override {
    pools_ = std::make_unique<PoolInRealNamespaces>(*connection_);
    review_ = std::make_unique<PodReview>(*pools_,
                                          desired::Defaults{"registry.example/larder:0.1.0", true},
                                          inject, [](const PodReview::Left&) {});
    server_ =
        AdmissionServer::start(
            {.address = "127.0.0.1:0"}, acceptor_,
            [this](std::string_view body, std::string_view from) { return (*review_)(body, from); },
            nullptr)
            .value();
    configure();
    ns_ = "team-" + std::to_string(++teams_);
    make_namespace({});
  }
  void clean() override {
    static_cast<void>(connection_->client->remove(k8s::resources::kWebhooks, "", "larder"));
  }

  // The chart's rules: pods that ask, and all other pods of a namespace that asks.
  void configure() {
    const std::string annotated =
        "has(object.metadata.annotations) && 'larder.dev/pool' in object.metadata.annotations";
    Object namespaces =
        webhook_entry("namespaces.larder.dev", server_->address(), "!(" + annotated + ")");
    namespaces["namespaceSelector"] = {
        {"matchExpressions", {{{"key", "larder.dev/pool"}, {"operator", "Exists"}}}}};
    const Status configured = configure_webhooks(
        *connection_->client,
        {webhook_entry("pods.larder.dev", server_->address(), annotated), namespaces});
    ASSERT_TRUE(configured.ok()) << configured.to_string();
    CertificateManager manager(*connection_->client,
                               {"default", "larder-tls", "localhost", "larder"}, connection_->clock,
                               [] { return std::int64_t{std::time(nullptr)}; });
    ASSERT_TRUE(manager.run_once().ok());
    loader_ = std::make_unique<CertificateLoader>(
        certificate_in_secret(*connection_->client, "default", "larder-tls"), acceptor_, 50);
    for (int i = 0;
         i < 200 &&
         create(pod("first-" + std::to_string(i)), "default").find("larder.dev/injected") ==
             std::string::npos;
         ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  void make_namespace(const Object& labels) {
    put(k8s::resources::kNamespaces, {{"metadata", {{"name", ns_}, {"labels", labels}}}});
  }
  void put(const k8s::Resource& resource, Object object) {
    object.update({{"apiVersion", "v1"}, {"kind", resource.kind}});
    const Result<Object> made = connection_->client->apply(resource, object);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
  }
  void put_runtime_class(const std::string& name, const Object& fields) {
    Object object = {{"apiVersion", "node.k8s.io/v1"},
                     {"kind", "RuntimeClass"},
                     {"metadata", {{"name", name}}},
                     {"handler", name}};
    object.update(fields);
    const Result<Object> made = connection_->client->apply(k8s::resources::kRuntimeClasses, object);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
  }
  void limit(const std::string& limits) {
    put(k8s::resources::kLimitRanges,
        {{"metadata", {{"name", "team"}, {"namespace", ns_}}},
         {"spec", {{"limits", test::from_yaml("[" + limits + "]").at(0)}}}});
    await([this] { return !pools_->surroundings(ns_, false).limit_ranges.empty(); });
  }
  // With the status that a controller writes, which is not here.
  void quota(const std::string& hard, const std::string& used,
             const Object& spec = Object::object()) {
    Object object = {{"metadata", {{"name", "share"}, {"namespace", ns_}}},
                     {"spec", {{"hard", test::from_yaml(hard).at(0)}}}};
    object["spec"].update(spec);
    put(k8s::resources::kQuotas, object);
    object["status"] = {{"hard", object["spec"]["hard"]}, {"used", test::from_yaml(used).at(0)}};
    object.update({{"apiVersion", "v1"}, {"kind", "ResourceQuota"}});
    const Result<Object> said =
        connection_->client->apply(k8s::resources::kQuotas, object, "status");
    ASSERT_TRUE(said.ok()) << said.status().to_string();
    await([this] {
      const auto known = pools_->surroundings(ns_, false).quotas;
      return !known.empty() && api::at(*known[0], "status.used").is_object();
    });
    // the admission plugin has a cache of its own
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  template <typename Holds>
  void await(Holds holds) {
    for (int i = 0; i < 500 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(holds());
  }

  static Object pod(
      const std::string& name,
      const std::string& resources = "{requests: {cpu: 8, memory: 64Gi}, limits: {memory: 64Gi}}") {
    Object made = annotated_pod();
    made["metadata"] = {{"name", name}, {"annotations", {{"larder.dev/pool", "chat"}}}};
    made["spec"]["containers"][0]["resources"] = test::from_yaml(resources).at(0);
    return made;
  }
  // The pod from the API server; the server's error for a refused pod.
  std::string create(Object object, const std::string& ns) {
    object["metadata"]["namespace"] = ns;
    const Result<Object> made = connection_->client->create(k8s::resources::kPods, object);
    return made.ok() ? made->dump() : made.status().to_string();
  }
  // Until the plugins, which have caches of their own, have seen the new objects: two equal
  // answers.
  std::string create(const Object& object) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return create(object, ns_);
  }

  static int teams_;
  int pods_ = 0;
  std::string ns_;
  std::unique_ptr<PoolInRealNamespaces> pools_;
  std::unique_ptr<PodReview> review_;
  TlsAcceptor acceptor_;
  std::unique_ptr<AdmissionServer> server_;
  std::unique_ptr<CertificateLoader> loader_;
};

int NamespaceTest::teams_ = 0;

// LimitRanger's demands on each container, ours too.
// covers F-219
TEST_F(NamespaceTest, MinimumRatioAndDefaultsStillAdmitInjectedPod) {
  limit(
      "{type: Container, min: {cpu: 100m, memory: 128Mi}, default: {cpu: 200m}, defaultRequest: "
      "{cpu: 200m}}");
  const std::string made =
      create(pod("least", "{requests: {cpu: 8, memory: 64Gi}, limits: {cpu: 8, memory: 64Gi}}"));
  EXPECT_THAT(made, HasSubstr("larder.dev/injected"));
}

// covers F-219
TEST_F(NamespaceTest, DefaultLimitBelowSidecarRequestStillAdmitsPod) {
  limit("{type: Container, default: {cpu: 50m}, defaultRequest: {cpu: 10m}}");
  EXPECT_THAT(create(pod("default", "{requests: {cpu: 8}, limits: {cpu: 8}}")),
              HasSubstr("larder.dev/injected"));
}

TEST_F(NamespaceTest, CpuMaximumStillAdmitsInjectedPod) {
  limit("{type: Container, max: {cpu: 50m}}");
  EXPECT_THAT(create(pod("most", "{requests: {cpu: 50m}, limits: {cpu: 50m}}")),
              HasSubstr("larder.dev/injected"));
}

TEST_F(NamespaceTest, LimitRequestRatioStillAdmitsInjectedPod) {
  limit("{type: Container, maxLimitRequestRatio: {cpu: 2}}");
  EXPECT_THAT(create(pod("ratio", "{requests: {cpu: 8}, limits: {cpu: 8}}")),
              HasSubstr("larder.dev/injected"));
}

TEST_F(NamespaceTest, DefaultGpuLimitIsZeroForInjectedContainers) {
  limit("{type: Container, default: {nvidia.com/gpu: 1}, defaultRequest: {nvidia.com/gpu: 1}}");
  const std::string made = create(pod("gpus"));
  ASSERT_THAT(made, HasSubstr("larder.dev/injected"));
  const Object pod = Object::parse(made);
  for (const Object& container : pod["spec"]["initContainers"])
    EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"], "0") << container.dump();
}

// covers F-220
TEST_F(NamespaceTest, PodOverLimitRangeStartsWithoutCache) {
  limit("{type: Pod, max: {memory: 66Gi}}");
  const std::string made = create(pod("pod"));
  EXPECT_THAT(made, HasSubstr("LimitRange team allows a pod at most 66Gi of memory"));
  EXPECT_THAT(made, testing::Not(HasSubstr("larder-payload")));
}

// covers F-220
TEST_F(NamespaceTest, PodOverQuotaStartsWithoutCache) {
  quota("{requests.memory: 100Gi}", "{requests.memory: 34Gi}");
  EXPECT_THAT(create(pod("full")),
              HasSubstr("ResourceQuota share has 66Gi of requests.memory left"));
}

TEST_F(NamespaceTest, PodWithinQuotaIsInjected) {
  quota("{requests.memory: 100Gi, limits.memory: 100Gi, requests.cpu: 10}",
        "{requests.memory: 31Gi, limits.memory: 0, requests.cpu: 0}");
  EXPECT_THAT(create(pod("room")), HasSubstr("larder.dev/injected"));
}

TEST_F(NamespaceTest, ExhaustedNotBestEffortQuotaStillAdmitsBestEffortPod) {
  quota("{requests.memory: 100Gi, pods: 5}", "{requests.memory: 0, pods: 0}",
        {{"scopes", {"NotBestEffort"}}});
  EXPECT_THAT(create(pod("effort", "{}")), HasSubstr("counts a pod with a cache"));
}

// LimitRanger wants a limit of GPUs of each container, and with a ratio a limit above 0.
// covers F-433
TEST_F(NamespaceTest, RatioOfGpusLeavesPodAlone) {
  limit("{type: Container, max: {nvidia.com/gpu: 8}, maxLimitRequestRatio: {nvidia.com/gpu: 1}}");
  EXPECT_THAT(create(pod("gpus", "{limits: {nvidia.com/gpu: 1}}")),
              HasSubstr("maxLimitRequestRatio of nvidia.com/gpu"));
}

// covers F-432
TEST_F(NamespaceTest, QuotaOfCrossNamespaceAffinityCounts) {
  quota("{requests.memory: 66Gi}", "{requests.memory: 0}",
        {{"scopes", {"CrossNamespacePodAffinity"}}});
  Object near = pod("near");
  near["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
      {{"topologyKey", "kubernetes.io/hostname"}, {"namespaces", {"default"}}}};
  EXPECT_THAT(create(near), HasSubstr("ResourceQuota share has 66Gi of requests.memory left"));
  EXPECT_THAT(create(pod("far")), HasSubstr("larder.dev/injected"));
}

// The API server refuses a pod with an absent class, or with another node selector than the class.
// covers F-430
TEST_F(NamespaceTest, PodOfPoolWithAbsentRuntimeClassIsCreated) {
  put_runtime_class("gpus", {{"scheduling", {{"nodeSelector", {{"kind", "gpu"}}}}}});
  Object absent = pod("absent"), there = pod("there"), elsewhere = pod("elsewhere");
  absent["metadata"]["annotations"]["larder.dev/pool"] = "class-absent";
  for (Object* one : {&there, &elsewhere})
    (*one)["metadata"]["annotations"]["larder.dev/pool"] = "class-gpus";
  elsewhere["spec"]["nodeSelector"] = {{"kind", "cpu"}};
  const std::string made = create(absent);
  EXPECT_THAT(made, HasSubstr("larder.dev/injected"));
  EXPECT_THAT(made, HasSubstr("the cluster has no RuntimeClass absent"));
  EXPECT_THAT(create(there), HasSubstr("\"runtimeClassName\":\"gpus\""));
  EXPECT_THAT(create(elsewhere),
              HasSubstr("nodeSelector or affinity excludes kind of RuntimeClass gpus"));
}

// The server adds the overhead of the pool's class behind the webhook, and its ResourceQuota counts
// the overhead. Its LimitRanger does not.
// covers F-450
TEST_F(NamespaceTest, OverheadOfRuntimeClassCountsInQuotaAlone) {
  put_runtime_class("virtual", {{"overhead", {{"podFixed", {{"memory", "2Gi"}}}}}});
  Object full = pod("full"), room = pod("room"), own = pod("own");
  for (Object* one : {&full, &room})
    (*one)["metadata"]["annotations"]["larder.dev/pool"] = "class-virtual";
  own["spec"]["runtimeClassName"] = "virtual";
  limit("{type: Pod, max: {memory: 69952Mi}}");
  quota("{requests.memory: 100Gi}", "{requests.memory: 30Gi}");
  EXPECT_THAT(create(full), HasSubstr("has 70Gi of requests.memory left, and with a cache the pod "
                                      "requests 72000Mi instead of 64Gi"));
  quota("{requests.memory: 100Gi}", "{requests.memory: 30Gi}");  // the server has counted the pod
  EXPECT_THAT(create(own), HasSubstr("72000Mi instead of 66Gi"));
  quota("{requests.memory: 100Gi}", "{requests.memory: 28Gi}");
  const std::string made = create(room);
  EXPECT_THAT(made, HasSubstr("larder.dev/injected"));
  EXPECT_THAT(made, HasSubstr("\"overhead\":{\"memory\":\"2Gi\"}"));
}

// The server takes a claim of an absent class, and its pod waits for ever.
// covers F-451
TEST_F(NamespaceTest, PodOfPoolWithAbsentStorageClassIsLeftAlone) {
  const auto made_with = [this](const std::string& pool) {
    Object claims = pod("pod-" + std::to_string(++pods_));
    claims["metadata"]["annotations"]["larder.dev/pool"] = pool;
    return create(claims);
  };
  Object fast = {{"apiVersion", "storage.k8s.io/v1"},
                 {"kind", "StorageClass"},
                 {"metadata", {{"name", "fast"}}},
                 {"provisioner", "csi.example"}};
  const auto put_class = [&] {
    const Result<Object> put = connection_->client->apply(k8s::resources::kStorageClasses, fast);
    ASSERT_TRUE(put.ok()) << put.status().to_string();
  };
  put_class();
  EXPECT_THAT(made_with("claim-fast"), HasSubstr("larder.dev/injected"));
  EXPECT_THAT(made_with("claim-slow"), HasSubstr("the cluster has no StorageClass \\\"slow\\\""));
  EXPECT_THAT(made_with("claim"), HasSubstr("the cluster has no default one"));
  fast["metadata"]["annotations"] = {{"storageclass.kubernetes.io/is-default-class", "true"}};
  put_class();
  EXPECT_THAT(made_with("claim"), HasSubstr("larder.dev/injected"));
  quota("{fast.storageclass.storage.k8s.io/requests.storage: 5Gi}",
        "{fast.storageclass.storage.k8s.io/requests.storage: 0}");
  EXPECT_THAT(made_with("claim"), HasSubstr("has 5Gi of fast.storageclass.storage.k8s.io"));
  EXPECT_TRUE(connection_->client->remove(k8s::resources::kStorageClasses, "", "fast").ok());
}

// The label of a namespace counts as its pods' annotation; pods without vLLM are unchanged.
TEST_F(NamespaceTest, NamespaceLabelInjectsVllmPods) {
  ns_ += "-asks";
  make_namespace({{"larder.dev/pool", "chat"}});
  Object engine = pod("engine"), declines = pod("declines"), other = pod("other");
  for (Object* one : {&engine, &other}) (*one)["metadata"].erase("annotations");
  declines["metadata"]["annotations"] = {{"larder.dev/inject", "false"}};
  other["spec"]["containers"][0].update({{"image", "nginx"}, {"command", {"sleep", "1"}}});
  EXPECT_THAT(create(engine), HasSubstr("larder.dev/injected\":\"0.1.0/chat"));
  EXPECT_THAT(create(other), testing::Not(HasSubstr("larder.dev")));
  EXPECT_THAT(create(declines), testing::Not(HasSubstr("larder-payload")));
}

// Label and pods in one `kubectl apply`: the informer has not seen the label yet, or has.
TEST_F(NamespaceTest, LabelOfNewNamespaceIsSeen) {
  for (int i = 0; i < 5; ++i) {
    ns_ = "new-" + std::to_string(i);
    make_namespace({{"larder.dev/pool", "chat"}});
    Object engine = pod("engine");
    engine["metadata"].erase("annotations");
    EXPECT_THAT(create(engine, ns_), HasSubstr("larder.dev/injected"));
  }
}

}  // namespace
}  // namespace larder::kube_test
