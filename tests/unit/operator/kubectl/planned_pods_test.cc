// Which pods the objects of a file would make, kind by kind.
#include "operator/kubectl/planned_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::kubectl {
namespace {

using api::Object;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kTemplate =
    R"({"metadata": {"name": "x", "labels": {"app": "llm"}, "annotations": {"larder.dev/pool": "chat"}},
        "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai"}]}})";

// An object of this kind with the spec, in which TEMPLATE stands for a pod template.
Object object_of(const std::string& version, const std::string& kind, std::string spec) {
  for (std::size_t at = 0; (at = spec.find("TEMPLATE")) != std::string::npos;)
    spec.replace(at, 8, kTemplate);
  return {{"apiVersion", version},
          {"kind", kind},
          {"metadata", {{"name", "llm"}, {"namespace", "models"}}},
          {"spec", Object::parse(spec)}};
}

std::vector<std::string> paths_in(const Object& object) {
  std::vector<std::string> paths;
  for (const PlannedPod& one : planned_pods({object}).pods) paths.push_back(one.path);
  return paths;
}

TEST(PlannedPods, TemplateIsFoundInAnyKind) {
  EXPECT_THAT(
      paths_in(object_of("apps/v1", "Deployment", R"({"replicas": 3, "template": TEMPLATE})")),
      ElementsAre("spec.template"));
  EXPECT_THAT(paths_in(object_of("batch/v1", "CronJob",
                                 R"({"jobTemplate": {"spec": {"template": TEMPLATE}}})")),
              ElementsAre("spec.jobTemplate.spec.template"));
  EXPECT_THAT(
      paths_in(object_of(
          "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
          R"({"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}})")),
      ElementsAre("spec.leaderWorkerTemplate.leaderTemplate",
                  "spec.leaderWorkerTemplate.workerTemplate"));
  EXPECT_THAT(paths_in(object_of(
                  "jobset.x-k8s.io/v1alpha2", "JobSet",
                  R"({"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]})")),
              ElementsAre("spec.replicatedJobs[0].template.spec.template"));
  EXPECT_THAT(paths_in(object_of("kubeflow.org/v1", "PyTorchJob",
                                 R"({"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}})")),
              ElementsAre("spec.pytorchReplicaSpecs.Worker.template"));
}

TEST(PlannedPods, PodIsPlannedWithGeneratedNameInItsNamespace) {
  const Planned planned = planned_pods(
      {object_of("apps/v1", "Deployment", R"({"replicas": 3, "template": TEMPLATE})")});
  ASSERT_EQ(planned.pods.size(), 1U);
  const PlannedPod& one = planned.pods[0];
  EXPECT_EQ(one.title(true), "Deployment models/llm, spec.template");
  EXPECT_EQ(one.copies, 3);
  EXPECT_EQ(one.pod, Object::parse(R"({"apiVersion": "v1", "kind": "Pod",
      "metadata": {"generateName": "llm-", "namespace": "models", "labels": {"app": "llm"}, "annotations": {"larder.dev/pool": "chat"}},
      "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai"}]}})"));
}

// The form of `kubectl get pod -o yaml`.
TEST(PlannedPods, RunningPodIsPlannedAsANewOne) {
  const Object pod = Object::parse(R"({"apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "llm-1", "namespace": "models", "uid": "u", "resourceVersion": "7", "managedFields": [], "creationTimestamp": "t"},
      "spec": {"containers": [{"name": "vllm"}]}, "status": {"phase": "Running"}})");
  const Planned planned = planned_pods({pod});
  ASSERT_EQ(planned.pods.size(), 1U);
  EXPECT_TRUE(planned.pods[0].is_pod());
  EXPECT_EQ(planned.pods[0].pod, Object::parse(R"({"apiVersion": "v1", "kind": "Pod",
      "metadata": {"generateName": "llm-1-", "namespace": "models"}, "spec": {"containers": [{"name": "vllm"}]}})"));
}

TEST(PlannedPods, ControllerDefaultsAreAdded) {
  const Planned set = planned_pods({object_of(
      "apps/v1", "StatefulSet",
      R"({"template": TEMPLATE, "volumeClaimTemplates": [{"metadata": {"name": "models"}}]})")});
  ASSERT_EQ(set.pods.size(), 1U);
  EXPECT_EQ(api::at(set.pods[0].pod, "spec.volumes"),
            Object::parse(
                R"([{"name": "models", "persistentVolumeClaim": {"claimName": "models-llm-0"}}])"));
  const Planned ray = planned_pods({object_of("ray.io/v1", "RayCluster",
                                              R"({"headGroupSpec": {"template": TEMPLATE}, )"
                                              R"("workerGroupSpecs": [{"template": TEMPLATE}]})")});
  ASSERT_EQ(ray.pods.size(), 2U);
  EXPECT_EQ(api::label(ray.pods[0].pod, "ray.io/node-type"), "head");
  EXPECT_EQ(api::label(ray.pods[1].pod, "ray.io/node-type"), "worker");
}

// A pod's spec alone is no template: the pods of its controller are not known.
TEST(PlannedPods, KindsWithoutTemplateAreReported) {
  const Planned planned = planned_pods(
      {object_of("serving.kserve.io/v1beta1", "InferenceService",
                 R"({"predictor": {"containers": [{"name": "kserve-container"}]}})"),
       object_of("serving.kserve.io/v1alpha1", "LLMInferenceService",
                 R"({"template": {"containers": [{"name": "main"}]}})"),
       object_of("serving.kserve.io/v1alpha1", "ServingRuntime",
                 R"({"containers": [{"name": "kserve-container"}]})"),
       object_of("v1", "Service", "{}"), object_of("networking.k8s.io/v1", "Ingress", "{}"),
       object_of("larder.dev/v1alpha1", "CachePool", "{}")});
  EXPECT_THAT(planned.pods, IsEmpty());
  EXPECT_THAT(planned.without,
              ElementsAre("InferenceService models/llm", "LLMInferenceService models/llm",
                          "ServingRuntime models/llm"));
  EXPECT_THAT(planned.needed, ElementsAre("CachePool llm"));
}

TEST(PlannedPods, MalformedObjectsAreHandled) {
  for (const char* spec :
       {"{}", R"({"template": []})", R"({"template": {"spec": {"containers": []}}})",
        R"({"template": {"spec": {"containers": [3]}}})",
        R"({"template": {"spec": {"containers": "x"}}})",
        R"({"replicas": "three", "template": TEMPLATE})"})
    EXPECT_LE(planned_pods({object_of("apps/v1", "Deployment", spec), Object(3), Object::array()})
                  .pods.size(),
              1U)
        << spec;
  Object deep = Object::parse(kTemplate);
  for (int i = 0; i < 1000; ++i) deep = {{"below", deep}};
  EXPECT_THAT(planned_pods({{{"kind", "Deep"}, {"spec", deep}}}).pods, IsEmpty());
}

}  // namespace
}  // namespace larder::kubectl
