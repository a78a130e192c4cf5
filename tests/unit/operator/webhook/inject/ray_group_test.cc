// Groups of pods that run one engine over Ray: leader and worker are left alone, by the same words.
#include <gtest/gtest.h>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

constexpr const char* kWords = "(multi-node over Ray is not served yet; ";

// covers F-240
TEST(RayGroup, CommandsPreventInjection) {
  for (const char* container :
       {R"Y({command: [sh, -c, "bash /x/multi-node-serving.sh leader )Y"
        R"Y(--ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve m"]})Y",
        R"Y({command: [sh, -c, "bash /x/multi-node-serving.sh worker )Y"
        R"Y(--ray_address=$(LWS_LEADER_ADDRESS)"]})Y",
        R"Y({command: [bash, -c, "ray start --head --port=6379; )Y"
        R"Y(vllm serve m --pipeline-parallel-size 2"]})Y",
        R"Y({command: [bash, -c, "exec /usr/local/bin/ray start --address=x:6379 --block"]})Y",
        R"Y({command: [ray, start, --block, --address=x]})Y",
        R"Y({image: "vllm/vllm-openai:1", args: [ray, start, --block]})Y",
        R"Y({command: [bash, -c, "ulimit -n 65536; $KUBERAY_GEN_RAY_START_CMD; vllm serve m"]})Y",
        R"Y({command: [bash, -c, "ray symmetric-run --address x -- vllm serve m"]})Y",
        R"Y({command: [vllm, serve, m, --distributed-executor-backend, ray]})Y",
        R"Y({command: [vllm, serve, m, --distributed_executor_backend=ray]})Y",
        R"Y({command: [vllm, serve, m, --distributed-exec, ray]})Y",
        R"Y({command: [vllm, serve, m, --data-parallel-backend=ray]})Y",
        R"Y({command: [vllm, serve, m, -dpb, ray]})Y",
        R"Y({command: [bash, -c, "vllm serve m --distributed-executor-backend \"ray\""]})Y",
        R"Y({command: [bash, -c, "vllm serve m $X"], env: [{name: X, )Y"
        R"Y(value: --distributed-executor-backend ray}]})Y",
        R"Y({command: [vllm, serve, m], env: [{name: RAY_ADDRESS, value: "x:6379"}]})Y",
        R"Y({command: [bash, -c, "until ray status; do sleep 1; done; vllm serve m -pp 2"]})Y",
        R"Y({command: [bash, -c, "ray health-check --address x && vllm serve m"]})Y",
        R"Y({command: [bash, -c, "ray stop --force; vllm serve m"]})Y",
        R"Y({command: [bash, -c, "python3 -m ray.scripts.scripts start --head; vllm serve m"]})Y",
        R"Y({command: [bash, -c, "python -c 'import ray; ray.init()'; vllm serve m"]})Y",
        R"Y({command: [bash, -c, "python -c \"from ray import serve\"; vllm serve m"]})Y",
        R"Y({command: [bash, -c, "/ray.sh head; vllm serve m -pp 2"]})Y",
        R"Y({command: [bash, -c, "bash /opt/start_ray_cluster.sh; vllm serve m -pp 2"]})Y",
        R"Y({command: [bash, -c, "bash examples/run_cluster.sh x --head; vllm serve m"]})Y",
        R"Y({command: [vllm, serve, m, --distributed-executor-backend, )Y"
        R"Y(vllm.v1.executor.ray_executor.RayDistributedExecutor]})Y",
        R"Y({command: [vllm, serve, m], env: [{name: RAY_HEAD_SERVICE_HOST, value: x}]})Y",
        R"Y({command: [bash, -c, "A=(m --distributed-executor-backend=ray); )Y"
        R"Y(vllm serve \"${A[@]}\""]})Y"})
    EXPECT_NE(refusal(container).find(kWords), std::string::npos)
        << container << ": " << refusal(container);
}

// Ray may run in a hook of the container, and a probe may ask for its state.
// covers F-405
TEST(RayGroup, IsLeftAloneByItsHooksAndProbes) {
  for (const char* container :
       {"{command: [vllm, serve, m, -pp, '2'], lifecycle: {postStart: {exec: {command: [sh, -c, "
        "'ray start --head']}}}}",
        "{command: [vllm, serve, m], lifecycle: {preStop: {exec: {command: [ray, stop]}}}}",
        "{command: [vllm, serve, m], startupProbe: {exec: {command: [ray, health-check]}}}",
        "{command: [vllm, serve, m], livenessProbe: {exec: {command: [bash, -c, ray status]}}}",
        "{command: [bash, -c, 'ray --logging-level debug start --head; vllm serve m -pp 2']}"})
    EXPECT_NE(refusal(container).find(kWords), std::string::npos)
        << container << ": " << refusal(container);
  EXPECT_EQ(refusal("{command: [vllm, serve, m], livenessProbe: {exec: {command: [curl, x]}}}"),
            "");
}

// covers F-311
TEST(RayGroup, VariableValuePreventsInjection) {
  for (const char* container :
       {"{command: [vllm, serve, m, --distributed-executor-backend, $(BACKEND)], env: [{name: "
        "BACKEND, value: ray}]}",
        "{command: [sh, -c, 'vllm serve m --distributed-executor-backend=\"${BACKEND:-mp}\"'], "
        "env: [{name: BACKEND, value: ray}]}",
        "{command: [vllm, serve, m], envFrom: [{prefix: RAY_, configMapRef: {name: c}}]}"})
    EXPECT_NE(refusal(container).find(kWords), std::string::npos)
        << container << ": " << refusal(container);
  for (const char* container :
       {"{command: [vllm, serve, m, --distributed_executor_backend, $(BACKEND)], envFrom: "
        "[{configMapRef: {name: c}}]}",
        "{command: [vllm, serve, m, -dpb, $(B)], env: [{name: B, valueFrom: {secretKeyRef: {name: "
        "c, key: k}}}]}",
        "{command: [sh, -c, 'B=ray; vllm serve m --distributed-executor-backend $B']}",
        "{command: [bash, -c, 'A=(m --distributed-executor-backend); A+=(ray); vllm serve "
        "\"${A[@]}\"']}",
        "{command: [sh, -c, 'vllm serve m --data-parallel-backend `cat /x`']}"})
    EXPECT_NE(refusal(container).find("write the value out"), std::string::npos)
        << container << ": " << refusal(container);
  EXPECT_EQ(refusal("{command: [vllm, serve, m, --distributed-executor-backend, $(BACKEND)], env: "
                    "[{name: BACKEND, value: mp}]}"),
            "");
}

// covers F-240
TEST(RayGroup, LabelsPreventInjection) {
  const char* engine = "{command: [vllm, serve, m]}";
  const char* worker = "{command: [sleep, infinity]}";
  for (const char* metadata :
       {"{labels: {ray.io/cluster: c, ray.io/node-type: head}}",
        "{labels: {ray.io/is-ray-node: 'yes'}}", "{annotations: {ray.io/ft-enabled: 'false'}}",
        "{labels: {leaderworkerset.sigs.k8s.io/name: l}}",
        "{labels: {leaderworkerset.sigs.k8s.io/worker-index: '1'}, annotations: "
        "{leaderworkerset.sigs.k8s.io/size: '2'}}"}) {
    EXPECT_NE(refusal(engine, metadata).find(kWords), std::string::npos) << metadata;
    EXPECT_EQ(refusal(engine, metadata), refusal(worker, metadata)) << "one group, one reason";
  }
}

// covers F-240
TEST(RayGroup, GroupWithoutRayIsInjected) {
  const char* group =
      "{labels: {leaderworkerset.sigs.k8s.io/name: l}, annotations: "
      "{leaderworkerset.sigs.k8s.io/size: '2'}}";
  for (const char* container :
       {"{command: [vllm, serve, m, --headless, --data-parallel-size, '2']}",
        "{command: [vllm, serve, m, --nnodes, '2', --node-rank, '0', --master-addr, "
        "$(LWS_LEADER_ADDRESS)]}",
        "{command: [bash, -c, 'vllm serve m --data_parallel_address $(LWS_LEADER_ADDRESS) "
        "--data-parallel-size-local 8']}"})
    EXPECT_EQ(refusal(container, group), "") << container;
  const char* alone =
      "{labels: {leaderworkerset.sigs.k8s.io/name: l}, annotations: "
      "{leaderworkerset.sigs.k8s.io/size: '1'}}";
  EXPECT_EQ(refusal("{command: [vllm, serve, m]}", alone), "") << "a group of one pod";
}

// covers F-381
TEST(RayGroup, JobSetSharingAnEngineIsNotInjected) {
  const char* labels = "{labels: {jobset.sigs.k8s.io/jobset-name: j}}";
  const char* script = R"Y({command: [bash, -c, "if [ $JOB_COMPLETION_INDEX = 0 ]; then /x head; )Y"
                       R"Y(vllm serve m -pp 2; else /x worker; fi"]})Y";
  EXPECT_NE(refusal(script, labels).find(kWords), std::string::npos);
  for (const char* container :
       {"{command: [vllm, serve, m, -pp, '2']}", "{command: [vllm, serve, m, -pp=2]}"})
    EXPECT_NE(refusal(container, labels).find(kWords), std::string::npos) << container;
  EXPECT_NE(refusal("{command: [bash, -c, 'vllm serve m -pp 2'], env: [{name: JOBSET_NAME, value: "
                    "j}]}")
                .find(kWords),
            std::string::npos);
  EXPECT_EQ(refusal("{command: [vllm, serve, m, -tp, '8']}", labels), "") << "one pod, one engine";
  EXPECT_EQ(refusal("{command: [bash, -c, 'vllm serve m --nnodes 2 --node-rank "
                    "$JOB_COMPLETION_INDEX']}",
                    labels),
            "");
}

// covers F-240
TEST(RayGroup, OtherPodsAreNotTakenForRay) {
  for (const char* container :
       {"{command: [vllm, serve, m, --distributed-executor-backend, mp]}",
        "{command: [vllm, serve, m, --served-model-name, ray]}",
        "{command: [vllm, serve, array/start]}",
        "{command: [bash, -c, \"# ray start is done elsewhere\\nvllm serve m\"]}",
        "{command: [bash, -c, 'echo gray start; vllm serve m']}",
        "{command: [bash, -c, 'python3 /x-ray.py; bash /array.sh; vllm serve m']}",
        "{command: [bash, -c, 'import_ray=1; echo ray is off; vllm serve m']}"})
    EXPECT_EQ(refusal(container), "") << container;
}

}  // namespace
}  // namespace larder::test
