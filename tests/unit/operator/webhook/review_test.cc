#include "operator/webhook/review.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/operator/webhook/reviews.h"

namespace larder::webhook {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class FakePools final : public PoolLookup {
 public:
  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override {
    asked = ns + "/" + name;
    return pools.contains(name) ? pools.at(name) : Status(Code::kNotFound, "none");
  }
  Result<api::CacheBackend> backend(const std::string&, const std::string& name) override {
    return backends.contains(name) ? backends.at(name) : Status(Code::kNotFound, "none");
  }
  Surroundings surroundings(const std::string& ns, bool decides) override {
    EXPECT_EQ(ns, "ml");
    decided = decides;
    return around;
  }
  Result<api::Object> config_map(const std::string& ns, const std::string& name) override {
    maps.push_back(ns + "/" + name);
    if (name != "engine") return Status(Code::kNotFound, "none");
    return api::Object{{"data", {{"ARGS", "--enable-lora"}}}};
  }
  Result<api::Object> runtime_class(const std::string& name) override {
    classes.push_back(name);
    return found_class;
  }
  Result<api::Object> storage_class(const std::string& name) override {
    storage_classes.push_back(name);
    return found_class;
  }
  std::vector<std::string> maps, classes, storage_classes;  // asked for
  Result<api::Object> found_class = Status(Code::kNotFound, "none");
  Surroundings around;
  bool decided = false;
  std::map<std::string, Result<api::CachePool>> pools;
  std::map<std::string, Result<api::CacheBackend>> backends;
  std::string asked;
};

class ReviewTest : public testing::Test {
 protected:
  ReviewTest() {
    api::CachePool pool{"ml", "chat", "u-chat", 1, {}};
    pool.spec.backend = "redis";
    pools_.pools.emplace("chat", pool);
    pools_.backends.emplace("redis", api::CacheBackend{"ml", "redis", "u", 1, {}});
  }
  Reviewed ask(const std::string& body) { return review_(body, "10.0.0.7"); }
  api::Object respond(const api::Object& review) {
    const Reviewed reviewed = ask(review.dump());
    EXPECT_EQ(reviewed.http_status, 200) << reviewed.body;
    return response_in(reviewed.body);
  }
  // Allowed, unchanged but for the annotation that says why, and why.
  std::string warning_of(const api::Object& review) {
    const api::Object response = respond(review);
    EXPECT_EQ(api::at(response, "allowed"), true);
    const api::Object patch = response.contains("patch") ? response["patch"] : api::Object::array();
    for (const api::Object& change : patch)
      EXPECT_THAT(change["path"].get<std::string>(), StartsWith("/metadata/annotations"));
    return response.contains("warnings") ? response["warnings"][0].get<std::string>() : "";
  }

  FakePools pools_;
  Injection injection_{{{{"op", "add"}, {"path", "/spec/x"}, {"value", "\u00e4"}}}, ""};
  std::function<void(const Input&)> looked_ = [](const Input&) {};
  std::vector<std::string> told_;
  std::vector<Refusal> kinds_;
  std::vector<std::string> pool_uids_, told_pools_;
  PodReview review_{pools_,
                    {"larder:1", true},
                    [this](const Input& input) {
                      looked_(input);
                      return injection_;
                    },
                    [this](const PodReview::Left& left) {
                      told_.push_back(left.ns + ": " + left.why);
                      kinds_.push_back(left.kind);
                      pool_uids_.push_back(left.pool_uid);
                      told_pools_.push_back(left.pool);
                    }};
};

TEST_F(ReviewTest, ReturnsTheInjectionPatch) {
  looked_ = [](const Input& input) {
    EXPECT_EQ(input.ns, "ml") << "of the request: the pod has no namespace";
    EXPECT_EQ(input.pool_name, "chat");
    EXPECT_TRUE(input.pool && input.backend);
    EXPECT_EQ(input.pod, annotated_pod());
    EXPECT_EQ(input.defaults.image, "larder:1");
  };
  const api::Object response = respond(review_of(annotated_pod(), "the-uid"));
  EXPECT_EQ(response["uid"], "the-uid");
  EXPECT_EQ(response["allowed"], true);
  EXPECT_EQ(response["patchType"], "JSONPatch");
  EXPECT_EQ(response["patch"], injection_.patch);
  EXPECT_FALSE(response.contains("warnings"));
  EXPECT_EQ(pools_.asked, "ml/chat");
  EXPECT_THAT(told_, IsEmpty());
}

// covers F-306
TEST_F(ReviewTest, InjectorReceivesTheConfigMapsOfThePod) {
  api::Object pod = annotated_pod();
  pod["spec"]["containers"][0]["envFrom"] = {{{"configMapRef", {{"name", "engine"}}}},
                                             {{"configMapRef", {{"name", "none"}}}},
                                             {{"secretRef", {{"name", "token"}}}}};
  api::Object seen;
  looked_ = [&seen](const Input& input) { seen = input.pod["spec"]["containers"][0]["envFrom"]; };
  respond(review_of(pod));
  EXPECT_THAT(pools_.maps, ElementsAre("ml/engine", "ml/none"));
  EXPECT_EQ(api::text_at(seen[0], "data.ARGS"), "--enable-lora");
  EXPECT_FALSE(seen[1].contains("data") || seen[2].contains("data"));
}

// covers F-430
TEST_F(ReviewTest, InjectorReceivesTheRuntimeClassOfThePool) {
  std::optional<api::Object> seen;
  looked_ = [&seen](const Input& input) { seen = input.classes.runtime; };
  respond(review_of(annotated_pod()));
  EXPECT_THAT(pools_.classes, IsEmpty()) << "the pool names none";
  pools_.pools.at("chat")->spec.runtime_class = "nvidia";
  respond(review_of(annotated_pod()));
  EXPECT_THAT(pools_.classes, IsEmpty()) << "larderd needs no GPU";
  pools_.pools.at("chat")->spec.transfer = api::Transfer::kSidecar;
  respond(review_of(annotated_pod()));
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->is_null()) << "the cluster has no such class";
  pools_.found_class = api::Object{{"handler", "nvidia"}};
  respond(review_of(annotated_pod()));
  EXPECT_EQ(*seen, *pools_.found_class);
  pools_.found_class = Status(Code::kPermissionDenied, "an older role");
  respond(review_of(annotated_pod()));
  EXPECT_FALSE(seen) << "unknown";
  EXPECT_THAT(pools_.classes, ElementsAre("nvidia", "nvidia", "nvidia"));
}

// The overhead of the pod's own class counts in quotas alone.
// covers F-450
TEST_F(ReviewTest, InjectorReceivesThePodsOwnRuntimeClassWhereAQuotaCounts) {
  std::optional<api::Object> seen;
  looked_ = [&seen](const Input& input) { seen = input.classes.runtime; };
  pools_.pools.at("chat")->spec.runtime_class = "nvidia";
  pools_.pools.at("chat")->spec.transfer = api::Transfer::kSidecar;
  pools_.found_class = api::Object{{"handler", "kata"}};
  api::Object pod = annotated_pod();
  pod["spec"]["runtimeClassName"] = "kata";
  respond(review_of(pod));
  EXPECT_THAT(pools_.classes, IsEmpty());
  pools_.around.quotas.push_back(std::make_shared<const api::Object>());
  respond(review_of(pod));
  EXPECT_THAT(pools_.classes, ElementsAre("kata"));
  EXPECT_EQ(seen, *pools_.found_class);
  pod["spec"]["overhead"] = {{"memory", "1Gi"}};
  respond(review_of(pod));
  EXPECT_THAT(pools_.classes, SizeIs(1)) << "the pod has what the class would add";
}

// covers F-451
TEST_F(ReviewTest, InjectorReceivesTheStorageClassOfTheDisk) {
  std::optional<api::Object> seen;
  looked_ = [&seen](const Input& input) { seen = input.classes.storage; };
  api::PoolSpec& spec = pools_.pools.at("chat")->spec;
  spec.disk.emplace();
  respond(review_of(annotated_pod()));
  EXPECT_THAT(pools_.storage_classes, IsEmpty()) << "the disk is an emptyDir";
  spec.disk->volume = api::DiskVolume::kEphemeralClaim;
  respond(review_of(annotated_pod()));
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->is_null()) << "no default class";
  spec.disk->storage_class = "nvme";
  pools_.found_class = api::Object{{"provisioner", "x"}};
  respond(review_of(annotated_pod()));
  EXPECT_EQ(*seen, *pools_.found_class);
  pools_.found_class = Status(Code::kPermissionDenied, "an older role");
  respond(review_of(annotated_pod()));
  EXPECT_FALSE(seen) << "unknown";
  api::Object declined = annotated_pod();
  declined["metadata"]["annotations"]["larder.dev/inject"] = "false";
  respond(review_of(declined));
  EXPECT_THAT(pools_.storage_classes, ElementsAre("", "nvme", "nvme"));
}

TEST_F(ReviewTest, EmptyPatchIsOmitted) {
  injection_.patch = api::Object::array();
  EXPECT_EQ(warning_of(review_of(annotated_pod())), "");
}

TEST_F(ReviewTest, RefusalIsRecordedOnceExceptInDryRuns) {
  injection_.refused = "no engine was found: name it in spec.engine.container";
  injection_.kind = Refusal::kEngine;
  const api::Object response = respond(review_of(annotated_pod()));
  EXPECT_EQ(response["warnings"][0], "larder: " + injection_.refused);
  EXPECT_EQ(response["patch"], injection_.patch) << "the annotation that says so";
  EXPECT_THAT(told_, ElementsAre("ml: " + injection_.refused));
  EXPECT_THAT(kinds_, ElementsAre(Refusal::kEngine));
  EXPECT_THAT(pool_uids_, ElementsAre("u-chat"));
  api::Object dry = review_of(annotated_pod());
  dry["request"]["dryRun"] = true;
  EXPECT_EQ(respond(dry)["patch"], injection_.patch);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(ReviewTest, MissingPoolOrBackendIsDecidedByTheInjector) {
  looked_ = [](const Input& input) { EXPECT_FALSE(input.pool); };
  injection_.refused = "there is no CachePool other";
  respond(review_of(annotated_pod("other")));
  EXPECT_THAT(pool_uids_, ElementsAre(""));
  injection_.refused.clear();
  pools_.backends.clear();
  looked_ = [](const Input& input) { EXPECT_TRUE(input.pool && !input.backend); };
  respond(review_of(annotated_pod()));
}

TEST_F(ReviewTest, UnreadablePoolCostsOnlyTheCache) {
  looked_ = [](const Input&) { FAIL() << "nothing to inject"; };
  pools_.pools.insert_or_assign("chat", Status(Code::kDeadlineExceeded, "GET took 1 s"));
  EXPECT_THAT(warning_of(review_of(annotated_pod())),
              HasSubstr("CachePool chat could not be read: GET took 1 s"));
  EXPECT_THAT(kinds_, ElementsAre(Refusal::kUnreadable));
}

// The pool's memory is not the backend's: a pod that restarts while the backend is unreadable, or
// was stored under an older schema, has memory.
// covers F-254
TEST_F(ReviewTest, UnreadableBackendCostsOnlyThatBackend) {
  for (const Code code : {Code::kUnavailable, Code::kInvalidArgument, Code::kDeadlineExceeded}) {
    bool looked = false;
    looked_ = [&](const Input& input) { looked = input.pool && !input.backend; };
    pools_.backends.insert_or_assign("redis", Status(code, "gone"));
    const api::Object response = respond(review_of(annotated_pod()));
    EXPECT_TRUE(looked);
    EXPECT_EQ(response["patch"], injection_.patch);
  }
  EXPECT_THAT(told_, IsEmpty());
}

// Events are forgotten after an hour, a pod's annotation is not; and a pod with a cache is not
// reported as one without.
// covers F-238
TEST_F(ReviewTest, UnreadableObjectIsReportedInThePod) {
  const auto annotation = [](const api::Object& pod, const api::Object& response) {
    EXPECT_TRUE(response.contains("patch")) << response;
    return response.contains("patch")
               ? api::annotation(pod.patch(response["patch"]), api::kNotInjectedAnnotation)
                     .value_or("")
               : std::string();
  };
  pools_.pools.insert_or_assign("chat", Status(Code::kDeadlineExceeded, "GET took 1 s"));
  EXPECT_THAT(annotation(annotated_pod(), respond(review_of(annotated_pod()))),
              HasSubstr("CachePool chat could not be read"));
  api::Object injected = annotated_pod();
  injected["metadata"]["annotations"][std::string(api::kInjectedAnnotation)] = "1/chat";
  injected["spec"]["initContainers"] = {{{"name", api::kPayloadContainer}, {"image", "larder:1"}}};
  EXPECT_FALSE(respond(review_of(injected)).contains("patch"));
  EXPECT_EQ(told_.size(), 1U);
  pools_.pools.insert_or_assign("chat", api::CachePool{"ml", "chat", "u", 1, {}});
  looked_ = [](const Input& input) { static_cast<void>(input.pod.at("no such key")); };
  EXPECT_THAT(annotation(annotated_pod(), respond(review_of(annotated_pod()))),
              HasSubstr("a defect of larder's injector"));
  api::Object formless = annotated_pod();
  formless["metadata"]["annotations"]["odd"] = 7;
  EXPECT_FALSE(respond(review_of(formless)).contains("patch"))
      << "no text can be written into an object that is no pod";
}

TEST_F(ReviewTest, InjectorExceptionAdmitsThePod) {
  looked_ = [](const Input& input) { static_cast<void>(input.pod.at("no such key")); };
  EXPECT_THAT(warning_of(review_of(annotated_pod())), HasSubstr("a defect of larder's injector"));
  EXPECT_THAT(kinds_, ElementsAre(Refusal::kDefect));
}

TEST_F(ReviewTest, OtherObjectsAreAllowedWithAWarning) {
  api::Object review = review_of(annotated_pod());
  review["request"]["kind"]["kind"] = "Deployment";
  EXPECT_THAT(warning_of(review), HasSubstr("not a Deployment"));
  review = review_of(annotated_pod());
  review["request"]["subResource"] = "ephemeralcontainers";
  EXPECT_THAT(warning_of(review), HasSubstr("pods/ephemeralcontainers"));
  review = review_of(annotated_pod());
  review["request"]["operation"] = "UPDATE";
  EXPECT_THAT(warning_of(review), HasSubstr("operation UPDATE"));
  review = review_of(nullptr);
  EXPECT_THAT(warning_of(review), HasSubstr("no object"));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(ReviewTest, PodWithoutAnnotationIsAllowedSilently) {
  api::Object pod = annotated_pod();
  pod["metadata"].erase("annotations");
  EXPECT_EQ(warning_of(review_of(pod)), "");
  for (const api::Object& odd : {api::Object(nullptr), api::Object("x"), api::Object({1}),
                                 api::Object{{"larder.dev/pool", 7}}}) {
    pod["metadata"]["annotations"] = odd;
    EXPECT_EQ(warning_of(review_of(pod)), "") << odd;
  }
  EXPECT_EQ(pools_.asked, "");
}

// The label of its namespace counts like the pod's annotation, which has precedence.
TEST_F(ReviewTest, NamespaceLabelRequestsInjection) {
  pools_.around.ns = std::make_shared<const api::Object>(api::Object{
      {"metadata", {{"name", "ml"}, {"labels", {{std::string(api::kPoolLabel), "chat"}}}}}});
  bool by_pod = true;
  looked_ = [&](const Input& input) {
    by_pod = input.by_pod;
    EXPECT_EQ(input.pool_name, "chat");
    EXPECT_EQ(input.surroundings.ns, pools_.around.ns);
  };
  api::Object pod = annotated_pod();
  EXPECT_EQ(respond(review_of(pod))["patch"], injection_.patch);
  EXPECT_TRUE(by_pod);
  EXPECT_FALSE(pools_.decided);
  pod["metadata"].erase("annotations");
  EXPECT_EQ(respond(review_of(pod))["patch"], injection_.patch);
  EXPECT_FALSE(by_pod);
  EXPECT_TRUE(pools_.decided) << "the pool is asked for even before an informer has the pool";
  pod["metadata"]["annotations"][std::string(api::kInjectAnnotation)] = "false";
  EXPECT_FALSE(respond(review_of(pod)).contains("patch"));
}

// Its Event and its line of the log name the pool, which stands in no annotation of the pod.
TEST_F(ReviewTest, RefusalByNamespaceRequestNamesThePool) {
  pools_.around.ns = std::make_shared<const api::Object>(
      api::Object{{"metadata", {{"labels", {{std::string(api::kPoolLabel), "chat"}}}}}});
  injection_.refused = "it has no room";
  injection_.kind = Refusal::kPod;
  api::Object pod = annotated_pod();
  pod["metadata"].erase("annotations");
  respond(review_of(pod));
  EXPECT_THAT(told_pools_, ElementsAre("chat"));
}

// A pod that is not ours gets no warning, no Event and no metric.
TEST_F(ReviewTest, IgnoredPodIsNotReported) {
  injection_ = {};
  injection_.passed_by = "no container of the pod starts vLLM";
  const api::Object response = respond(review_of(annotated_pod()));
  EXPECT_FALSE(response.contains("patch"));
  EXPECT_FALSE(response.contains("warnings"));
  EXPECT_THAT(told_, IsEmpty());
}

// An unreadable pool: reported to pods of vLLM, and to no other pod of a namespace that asks.
TEST_F(ReviewTest, UnreadablePoolIsReportedOnlyToVllmPods) {
  pools_.around.ns = std::make_shared<const api::Object>(
      api::Object{{"metadata", {{"labels", {{std::string(api::kPoolLabel), "chat"}}}}}});
  pools_.pools.insert_or_assign("chat", Status(Code::kDeadlineExceeded, "GET took 1 s"));
  api::Object pod = annotated_pod();
  pod["metadata"].erase("annotations");
  EXPECT_THAT(warning_of(review_of(pod)), HasSubstr("could not be read"));
  pod["spec"]["containers"][0] = {{"name", "main"}, {"image", "nginx"}, {"command", {"nginx"}}};
  EXPECT_EQ(warning_of(review_of(pod)), "");
}

// covers F-243
TEST_F(ReviewTest, MalformedReviewIsRefusedWithAReason) {
  const auto refused = [this](const std::string& body) {
    const Reviewed reviewed = ask(body);
    EXPECT_EQ(reviewed.http_status, 400) << body.substr(0, 100);
    return reviewed.body;
  };
  EXPECT_THAT(refused(""), HasSubstr("not an AdmissionReview: no valid JSON"));
  EXPECT_THAT(refused("{\"kind\": "), HasSubstr("no valid JSON"));
  EXPECT_THAT(refused("{\"kind\": \"\xff\"}"), HasSubstr("no valid JSON"));
  EXPECT_THAT(refused(std::string(5000, '[')), HasSubstr("nests deeper"));
  EXPECT_THAT(refused("[]"),
              HasSubstr("the webhook accepts only AdmissionReview of admission.k8s.io/v1"));
  EXPECT_THAT(refused(R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"})"),
              HasSubstr("only AdmissionReview"));
  EXPECT_THAT(
      refused(
          R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":7}})"),
      HasSubstr("no request.uid"));
  std::string many = "[0";
  for (int i = 0; i < 200'000; ++i) many += ",0";
  EXPECT_THAT(refused(many + "]"), HasSubstr("more than 100000 values"));
}

// Commas in a script are no values; a large pod with few values is read.
TEST_F(ReviewTest, ALargePodIsReviewed) {
  api::Object pod = annotated_pod();
  pod["spec"]["containers"][0]["args"] = {std::string(1u << 20, ',') + "\"[{\\"};
  EXPECT_EQ(respond(review_of(pod))["patch"], injection_.patch);
}

TEST_F(ReviewTest, AWarningIsBounded) {
  injection_.refused = std::string(100'000, 'x');
  EXPECT_LT(respond(review_of(annotated_pod()))["warnings"][0].get<std::string>().size(), 1000U);
}

}  // namespace
}  // namespace larder::webhook
