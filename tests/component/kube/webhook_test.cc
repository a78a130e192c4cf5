// The webhook called by a real kube-apiserver: its HTTP client, match conditions, reinvocation and
// dry run; certificates of the manager, rotated while pods are created.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <set>

#include "operator/api/base64.h"
#include "operator/webhook/admission_server.h"
#include "operator/webhook/certificate_loader.h"
#include "operator/webhook/certificate_manager.h"
#include "operator/webhook/inject/inject.h"
#include "tests/component/command.h"
#include "tests/component/kube/kube_test.h"
#include "tests/component/kube/webhook_configuration.h"
#include "tests/unit/operator/webhook/reviews.h"

namespace larder::kube_test {
namespace {

using namespace pki;
using namespace webhook;

class OnePool final : public PoolLookup {
 public:
  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override {
    if (name != "chat") return Status(Code::kNotFound, "none");
    return api::parse_pool(
        {{"metadata",
          {{"name", name}, {"namespace", ns}, {"uid", "6f1c8e6e-0000-4000-8000-000000000001"}}},
         {"spec", {{"memory", {{"size", "4Gi"}}}}}});
  }
  Result<api::CacheBackend> backend(const std::string&, const std::string&) override {
    return Status(Code::kNotFound, "none");
  }
};

// Another mutating webhook, after ours in the order: this one writes a label, so that the API
// server asks ours again.
Reviewed label_review(std::string_view body, std::string_view) {
  const Result<api::Object> review = api::parse_json(body);
  const api::Object patch = {
      {{"op", "add"}, {"path", "/metadata/labels"}, {"value", {{"other", "webhook"}}}}};
  const bool done = review.ok() && api::label(api::at(*review, "request.object"), "other");
  api::Object response = {{"uid", review.ok() ? api::text_at(*review, "request.uid") : ""},
                          {"allowed", true}};
  if (!done) response.update({{"patchType", "JSONPatch"}, {"patch", api::to_base64(patch.dump())}});
  return {200, api::Object{{"apiVersion", "admission.k8s.io/v1"},
                           {"kind", "AdmissionReview"},
                           {"response", response}}
                   .dump()};
}

class WebhookTest : public KubeTest {
 protected:
  // `requests`: that a connection may carry; 1: each pod is a new handshake.
  explicit WebhookTest(const Lifetimes& lifetimes = {},
                       unsigned requests = kAdmissionLimits.requests)
      : kept_{"default", "larder-tls", "localhost", "larder", lifetimes} {
    options_.address = "127.0.0.1:0";
    options_.limits.requests = requests;
  }
  void prepare() override {
    ours_ = AdmissionServer::start(options_, acceptor_, counted(), nullptr).value();
    other_ = AdmissionServer::start(options_, acceptor_, label_review, nullptr).value();
    const std::string annotated =
        "has(object.metadata.annotations) && 'larder.dev/pool' in object.metadata.annotations";
    const Status configured = configure_webhooks(
        *connection_->client,
        {webhook_entry("inject.larder.dev", ours_->address(), annotated),
         webhook_entry("zz.other.dev", other_->address(),
                       "has(object.metadata.name) && object.metadata.name == 'twice'")});
    ASSERT_TRUE(configured.ok()) << configured.to_string();
    manager_ = std::make_unique<CertificateManager>(*connection_->client, kept_, connection_->clock,
                                                    [] { return std::time(nullptr); });
    const Status kept = manager_->run_once();
    ASSERT_TRUE(kept.ok()) << kept.to_string();
    loader_ = std::make_unique<CertificateLoader>(
        certificate_in_secret(*connection_->client, "default", "larder-tls"), acceptor_, 50);
    // The API server acts on a changed configuration a moment later; until then the server calls no
    // webhook, or uses another's caBundle.
    for (int i = 0;
         i < 200 && create("first", "chat").find("larder.dev/injected") == std::string::npos; ++i) {
      kubectl("delete pod first --now --wait=false");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    reviews_ = 0;
  }
  void clean() override {
    kubectl("delete mutatingwebhookconfiguration larder");
    kubectl("delete pods --all --now --wait=false");
    kubectl("delete secret larder-tls");
  }

  AdmissionServer::Review counted() {
    const auto review = std::make_shared<PodReview>(  // shared: std::function copies
        pools_, desired::Defaults{"registry.example/larder:0.1.0", true}, inject,
        [this](const PodReview::Left& left) {
          const std::lock_guard lock(mutex_);
          told_.push_back(left.why);
        });
    return [this, review](std::string_view body, std::string_view from) {
      ++reviews_;
      return full_-- > 0 ? Reviewed{503, "full\n"} : (*review)(body, from);
    };
  }

  test::Outcome kubectl(const std::string& words) {
    const char* path = std::getenv("PATH");
    return test::run(
        "kubectl --kubeconfig " + plane_->kubeconfig() + " " + words,
        std::string("PATH=") + (path == nullptr ? "" : path) + " HOME=" + plane_->folder());
  }
  static api::Object named_pod(const std::string& name, const std::string& pool) {
    api::Object pod = annotated_pod(pool);
    pod["metadata"].erase("generateName");
    pod["metadata"]["name"] = name;
    return pod;
  }
  // The pod in the API server's answer; the error without a pod.
  std::string create(const std::string& name, const std::string& pool,
                     const std::string& flags = "") {
    api::Object pod = named_pod(name, pool);
    if (pool.empty()) pod["metadata"].erase("annotations");
    return create_object(pod, flags);
  }
  std::string create_object(const api::Object& object, const std::string& flags = "") {
    const std::string file = plane_->folder() + "/" + api::name_of(object) + ".json";
    std::ofstream(file) << object;
    return kubectl("create -o json " + flags + " -f " + file).text;
  }
  std::size_t told() {
    const std::lock_guard lock(mutex_);
    return told_.size();
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  }

  const KeptCertificates kept_;
  ServerOptions options_;
  OnePool pools_;
  TlsAcceptor acceptor_;
  std::atomic<int> reviews_ = 0;
  std::atomic<int> full_ = 0;  // so many reviews find no place
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::unique_ptr<AdmissionServer> ours_, other_;
  std::unique_ptr<CertificateManager> manager_;
  std::unique_ptr<CertificateLoader> loader_;
};

TEST_F(WebhookTest, AnnotatedPodsAreInjectedAndOthersAreNotReviewed) {
  const std::string pod = create("annotated", "chat");
  EXPECT_NE(pod.find("larder.dev/injected"), std::string::npos) << pod;
  EXPECT_EQ(count(pod, "\"name\": \"larder\""), 1U) << pod;
  EXPECT_EQ(reviews_, 1);
  EXPECT_EQ(create("plain", "").find("larder.dev"), std::string::npos);
  EXPECT_EQ(reviews_, 1) << "the match condition";
}

// In a ReplicaSet's form: no name and no namespace in the object, which the API server adds behind
// the review.
TEST_F(WebhookTest, PodWithGenerateNameIsInjected) {
  api::Object pod = annotated_pod("chat");
  ASSERT_TRUE(pod["metadata"].contains("generateName") && !pod["metadata"].contains("name"));
  pod["metadata"]["ownerReferences"] = {{{"apiVersion", "apps/v1"},
                                         {"kind", "ReplicaSet"},
                                         {"name", "vllm"},
                                         {"uid", "6f1c8e6e-0000-4000-8000-000000000002"}}};
  const std::string made = create_object(pod);
  EXPECT_NE(made.find("\"name\": \"vllm-"), std::string::npos) << made;
  EXPECT_EQ(count(made, "\"name\": \"larder\""), 1U) << made;
  EXPECT_EQ(reviews_, 1);
}

TEST_F(WebhookTest, ReinvocationAfterAnotherWebhookChangesNothing) {
  const std::string pod = create("twice", "chat");
  EXPECT_NE(pod.find("\"other\": \"webhook\""), std::string::npos) << pod;
  EXPECT_EQ(count(pod, "\"name\": \"larder\""), 1U) << pod;
  EXPECT_EQ(reviews_, 2) << "reinvocationPolicy IfNeeded";
}

TEST_F(WebhookTest, DryRunReturnsThePodWithoutEvent) {
  const std::string pod = create("dry", "chat", "--dry-run=server");
  EXPECT_NE(pod.find("larder.dev/injected"), std::string::npos) << pod;
  EXPECT_NE(create("dry", "missing", "--dry-run=server").find("larder.dev/not-injected"),
            std::string::npos);
  EXPECT_EQ(told(), 0U);
  EXPECT_NE(create("wet", "missing").find("larder.dev/not-injected"), std::string::npos);
  EXPECT_EQ(told(), 1U);
}

// A pod made without a cache is made with a cache: a quota of processors wants a limit of every
// container, ours too.
TEST_F(WebhookTest, CpuQuotaStillAdmitsInjectedPod) {
  const api::Object hard = {{"limits.cpu", "16"}, {"requests.memory", "64Gi"}},
                    none = {{"limits.cpu", "0"}, {"requests.memory", "0"}};
  create_object({{"apiVersion", "v1"},
                 {"kind", "ResourceQuota"},
                 {"metadata", {{"name", "team"}}},
                 {"spec", {{"hard", hard}}}});
  // by a controller, which is not here
  const api::Object counted = {{"status", {{"hard", hard}, {"used", none}}}};
  EXPECT_EQ(kubectl("patch resourcequota team --subresource=status --type=merge -p '" +
                    counted.dump() + "'")
                .status,
            0);
  api::Object pod = named_pod("burstable", "chat");
  api::Object& engine = pod["spec"]["containers"][0];
  engine["resources"] = {{"requests", {{"memory", "1Gi"}}}};
  EXPECT_NE(create_object(pod).find("must specify limits.cpu for: larder"), std::string::npos)
      << "the quota is in force";
  engine["resources"]["limits"] = {{"cpu", "2"}};
  const std::string made = create_object(pod);
  EXPECT_NE(made.find("larder.dev/injected"), std::string::npos) << made;
  kubectl("delete resourcequota team");
}

TEST_F(WebhookTest, PodCreatorSeesTheWarning) {
  const test::Outcome outcome =
      kubectl("run warned --image=a --annotations=larder.dev/pool=missing");
  EXPECT_NE(outcome.text.find("Warning: larder: "), std::string::npos) << outcome.text;
}

// covers F-242
TEST_F(WebhookTest, ReviewRejectedAsOverloadIsRetried) {
  full_ = 2;
  const std::string pod = create("again", "chat");
  EXPECT_NE(pod.find("larder.dev/injected"), std::string::npos) << pod;
  EXPECT_EQ(reviews_, 3);
}

class WebhookRotationTest : public WebhookTest {
 protected:
  WebhookRotationTest()
      : WebhookTest({.authority_s = 36, .leaf_s = 18, .backdate_s = 2, .settle_s = 3}, 1) {}

  std::string secret(const char* key) {
    const Result<api::Object> found =
        connection_->client->get(k8s::resources::kSecrets, "default", "larder-tls");
    return found.ok() ? api::from_base64((*found)["data"][key].get<std::string>()).value_or("")
                      : "";
  }
};

// Authority and leaf are replaced while pods are created. Failures are visible (failurePolicy
// Fail), and there is no failure.
TEST_F(WebhookRotationTest, NoPodIsRefusedWhileCertificatesRotate) {
  const std::string first_authority = secret("ca.crt");
  std::set<std::int64_t> leaves;
  bool rotated = false;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; !rotated && std::chrono::steady_clock::now() - begin < std::chrono::seconds(80);
       ++i) {
    const Status kept = manager_->run_once();
    EXPECT_TRUE(kept.ok()) << kept.to_string();
    const std::string pod = create("rotated-" + std::to_string(i), "chat");
    ASSERT_NE(pod.find("larder.dev/injected"), std::string::npos) << i << ": " << pod;
    leaves.insert(acceptor_.not_after_s());
    rotated = secret("ca.crt") != first_authority &&
              is_signed_by(secret("tls.crt"), split_bundle(secret("ca.crt")).back());
  }
  EXPECT_TRUE(rotated);
  EXPECT_GE(leaves.size(), 2U);
}

}  // namespace
}  // namespace larder::kube_test
