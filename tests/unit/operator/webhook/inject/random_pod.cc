#include "tests/unit/operator/webhook/inject/random_pod.h"

#include <map>

#include "tests/unit/operator/api/yaml_object.h"

namespace larder::test {
namespace {

using api::Object;

constexpr const char* kCommands[] = {
    "{}",
    "{command: [vllm, serve, m]}",
    "{command: [vllm, serve], args: [m, --port, '1']}",
    "{args: [m, --max-model-len, '1']}",
    "{command: [python3, -m, vllm.entrypoints.openai.api_server], args: [--model, m]}",
    "{command: [/usr/bin/tini, --, /x/vllm, serve, m]}",
    "{command: [sh, -c, vllm serve m]}",
    "{command: [bash, -c], args: [\"a && exec vllm serve 'm' --x \\\"$Y\\\" 2>&1 | tee log\"]}",
    "{command: [bash, -c, \"if a; then\\n vllm serve m \\\\\\n --port 1 $EXTRA\\nfi\"]}",
    "{command: [bash, -c, 'eval \"exec vllm serve m ${VLLM_ADDITIONAL_ARGS} $@\"', --], args: "
    "[--seed, '1']}",
    "{command: [bash, -c, \"sh -c 'vllm serve m'; eval vllm serve m $Z\"]}",
    "{command: [bash, -c, \"vllm serve 'm\"]}",
    "{command: [bash, /start.sh]}",
    "{command: [python3, -m, http.server]}",
    "{command: [vllm, serve, m, --kv-transfer-config, "
    "'{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}']}",
    "{command: [vllm, serve, m, '--kv_transfer_config={\"kv_connector\":\"LarderConnector\"}']}",
    "{command: [vllm, serve, m, --kv-transfer-config, '{\"kv_connector\":1}']}",
    "{command: [bash, -c, \"vllm serve m --kv-transfer-config '{\\\"kv_connector\\\":\\\"X\\\"}' "
    "--port 1\"]}",
    "{command: [vllm, serve, m, --kv-offloading-size, '1']}",
    "{command: [], args: []}",
    "{args: [sleep, infinity]}",
    "{command: [env, -i, vllm, serve, m]}",
    "{command: [sh, -c, 'ulimit -c 0; exec \"$@\"', --], args: [vllm, serve, m, --port, '1']}",
    "{command: [bash, -c, 'A=(m --port 1); A+=($B); vllm serve \"${A[@]}\"']}",
    "{command: [bash, -c, 'C=(vllm serve m); GPU=$X \"${C[@]}\" --seed 1']}",
    "{command: [bash, -c, 'set -- m; f() { vllm serve $1; }; f $Y']}",
    "{command: [bash, -c, 'ray start --head; vllm serve m']}",
};
constexpr const char* kEnvironments[] = {
    "{}",
    "{env: [{name: A, value: b}]}",
    "{env: [{name: PYTHONPATH, value: /x}]}",
    "{env: [{name: PYTHONPATH, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, "
    "value: $(PYTHONPATH)}]}",
    "{envFrom: [{configMapRef: {name: c}}]}",
    "{env: [{name: VLLM_ADDITIONAL_ARGS, value: \"--kv-transfer-config "
    "'{\\\"kv_connector\\\":\\\"X\\\"}'\"}]}",
    "{env: [{name: LARDER_SOCKET, value: x}]}",
    "{env: [{name: LARDER_POOL, value: x}]}",
    "{env: null, volumeMounts: null}",
    "{env: [{name: PYTORCH_CUDA_ALLOC_CONF, value: 'expandable_segments:True'}]}",
};
constexpr const char* kMounts[] = {
    "{}",
    "{volumeMounts: []}",
    "{volumeMounts: [{name: dshm, mountPath: /dev/shm}]}",
    "{volumeMounts: [{name: x, mountPath: /larder}]}",
    "{ports: [{containerPort: 8000}]}",
    "{ports: [{containerPort: 9464}]}",
};
constexpr const char* kResources[] = {
    "{}",
    "{resources: {limits: {cpu: '4', memory: 8Gi}, requests: {cpu: '4', memory: 8Gi}}}",
    "{resources: {limits: {nvidia.com/gpu: 1}}}",
    "{resources: {claims: [{name: gpu}]}, securityContext: {runAsUser: 1000}}",
    "{securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: "
    "[ALL]}}}",
};
constexpr const char* kImages[] = {"{image: 'vllm/vllm-openai:v0.32.0'}", "{image: nginx}", "{}",
                                   "{image: 'a:5/vllm-router@sha256:0'}"};
constexpr const char* kSecurity[] = {
    "{}",
    "{securityContext: {}}",
    "{securityContext: null}",
    "{securityContext: {fsGroup: 1}}",
    "{securityContext: {runAsUser: 1, runAsGroup: 2, supplementalGroups: [3, 65532]}}",
    "{securityContext: {supplementalGroups: null}}",
};
constexpr const char* kInit[] = {
    "{}",
    "{initContainers: []}",
    "{initContainers: null, volumes: null}",
    "{initContainers: [{name: storage-initializer, image: x}], volumes: [{name: dshm, emptyDir: "
    "{medium: Memory}}]}",
    "{initContainers: [{name: istio-init, image: x}, {name: istio-proxy, restartPolicy: Always}, "
    "{name: x}]}",
    "{initContainers: [{name: larder-payload, image: x}]}",
    "{volumes: [{name: larder-run, emptyDir: {}}]}",
    "{volumes: []}",
};
constexpr const char* kHost[] = {
    "{}",
    "{hostNetwork: true}",
    "{hostIPC: true, hostPID: true}",
    "{os: {name: windows}}",
    "{os: {name: linux}}",
    "{nodeSelector: {kubernetes.io/os: windows}}",
    "{resources: {limits: {cpu: '1'}}}",
    "{restartPolicy: Never}",
    "{runtimeClassName: x}",
};
constexpr const char* kMetadata[] = {
    "{name: a}",
    "{generateName: a-}",
    "{}",
    "{annotations: null}",
    "{annotations: {a/b~c: d}}",
    "{annotations: {larder.dev/injected: 0.1.0/x}}",
    "{annotations: {larder.dev/not-injected: why}}",
    "{annotations: {kubernetes.io/config.mirror: x}}",
};
constexpr const char* kPools[] = {
    "{memory: {size: 1Gi}}",
    "{memory: {size: 1Gi, hugepages: 2Mi}, disk: {size: 10Gi}}",
    "{memory: {size: 2Gi}, placement: Node}",
    "{memory: {size: 1Gi}, chunkTokens: 512, backendRef: {name: b}}",
    "{memory: {size: 1Gi}, engine: {container: engine}}",
    "{memory: {size: 1Gi}, engine: {container: c1, flags: false}}",
    "{memory: {size: 1Gi}, transfer: sidecar, runtimeClassName: nvidia, disk: {size: 1Gi, volume: "
    "ephemeral}}",
    "{memory: {size: 1Gi}, injection: {userIds: Platform, payloadResources: {limits: {cpu: 1}}, "
    "annotations: {a: b}, labels: {a: b}}}",
    "{memory: {size: 1Gi}, podSecurity: {runAsUser: 7}, resources: {limits: {cpu: 2}, requests: "
    "{cpu: 1}}}",
};
constexpr const char* kNamespaces[] = {
    "{metadata: {name: models}}",
    "{metadata: {name: models, labels: {larder.dev/pool: llama}}}",
    "{metadata: {name: models, annotations: {openshift.io/sa.scc.uid-range: 1000660000/10000}}}",
    "{metadata: {annotations: {openshift.io/sa.scc.uid-range: 1000-1001, "
    "openshift.io/sa.scc.supplemental-groups: '5/2,9/1'}}}",
};
constexpr const char* kLimitRanges[] = {
    "{metadata: {name: l}, spec: {limits: []}}",
    "{metadata: {name: l}, spec: {limits: [{type: Container, min: {cpu: 200m, memory: 128Mi}, "
    "default: {cpu: 50m}}]}}",
    "{metadata: {name: l}, spec: {limits: [{type: Container, max: {cpu: 50m, memory: 1Gi}, "
    "maxLimitRequestRatio: {cpu: 2}}]}}",
    "{metadata: {name: l}, spec: {limits: [{type: Pod, max: {cpu: 20, memory: 70Gi}}, {type: "
    "Container, default: {gpu: 1}}]}}",
};
constexpr const char* kQuotas[] = {
    "{metadata: {name: q}}",
    "{metadata: {name: q}, spec: {hard: {limits.cpu: 9}}, status: {hard: {limits.cpu: 9}, used: "
    "{limits.cpu: 0}}}",
    "{metadata: {name: q}, spec: {hard: {memory: 2Gi}, scopes: [NotBestEffort]}, status: {hard: "
    "{memory: 2Gi}, used: {memory: 1Gi}}}",
    "{metadata: {name: q}, spec: {hard: {requests.storage: 1Gi}}, status: {hard: "
    "{requests.storage: 1Gi}, used: {requests.storage: 0}}}",
};

// Each text is read once.
const Object& read(const char* text) {
  static std::map<const char*, Object> known;
  const auto found = known.find(text);
  return found != known.end() ? found->second
                              : known.emplace(text, from_yaml(text).front()).first->second;
}

}  // namespace

Object RandomPods::choose(std::span<const char* const> texts) {
  const std::size_t at = below(texts.size());
  shape_ += static_cast<char>('a' + at);
  return read(texts[at]);
}

Object RandomPods::container() {
  Object container = choose(kCommands);
  for (const std::span<const char* const> texts :
       {std::span<const char* const>(kEnvironments), std::span<const char* const>(kMounts),
        std::span<const char* const>(kResources), std::span<const char* const>(kImages)})
    container.update(choose(texts));
  return container;
}

void RandomPods::fill_spec(Object& spec) {
  const std::size_t count = 1 + (one_in(3) ? below(3) : 0);
  for (std::size_t at = 0; at < count; ++at) {
    Object one = container();
    one["name"] = at == 0 ? "engine" : "c" + std::to_string(at);
    spec["containers"].push_back(std::move(one));
    shape_ += '.';
  }
  for (const std::span<const char* const> texts :
       {std::span<const char* const>(kSecurity), std::span<const char* const>(kInit),
        std::span<const char* const>(kHost)})
    spec.update(choose(texts));
}

void RandomPods::fill_metadata(Object& metadata) {
  metadata = choose(kMetadata);
  if (metadata.contains("name")) metadata["name"] = "pod-" + std::to_string(below(1000));
}

void RandomPods::choose_pool(InjectionCase& one) {
  one.pool_name = "llama";
  if (one_in(40)) {
    shape_ += '-';
    return;
  }
  const Object spec = choose(kPools);
  auto pool =
      api::parse_pool({{"apiVersion", "larder.dev/v1alpha1"},
                       {"kind", "CachePool"},
                       {"metadata", {{"name", "llama"}, {"namespace", "models"}, {"uid", "u"}}},
                       {"spec", spec}});
  if (pool.ok()) one.pool = *pool;
  one.defaults.native_sidecars = !one_in(8);
  shape_ += one.defaults.native_sidecars ? 'n' : 'o';
}

void RandomPods::choose_namespace(InjectionCase& one) {
  if (!one_in(3)) return;
  one.by_pod = !one_in(4);
  const auto kept = [this](std::span<const char* const> texts) {
    return std::make_shared<const Object>(choose(texts));
  };
  one.surroundings = {kept(kNamespaces), {kept(kLimitRanges)}, {kept(kQuotas)}};
  if (!one_in(6)) return;
  Object odd = *one.surroundings.quotas[0];
  damage(odd);
  one.surroundings.quotas.push_back(std::make_shared<const Object>(odd));
  odd = *one.surroundings.limit_ranges[0];
  damage(odd);
  one.surroundings.limit_ranges.push_back(std::make_shared<const Object>(odd));
}

// Something somewhere becomes something else.
void RandomPods::damage(Object& object) {
  if (object.is_structured() && !object.empty() && !one_in(4)) {
    auto at = object.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(below(object.size())));
    return damage(*at);
  }
  static const std::vector<Object> kOthers{nullptr,
                                           7,
                                           -1,
                                           true,
                                           "text",
                                           Object::array(),
                                           Object::object(),
                                           Object::array({nullptr}),
                                           Object{{"name", 1}},
                                           Object::array({Object{{"name", "x"}}}),
                                           std::string(300, 'x')};
  object = kOthers[below(kOthers.size())];
}

RandomPod RandomPods::next() {
  shape_.clear();
  RandomPod pod;
  pod.one.pod = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  fill_metadata(pod.one.pod["metadata"]);
  fill_spec(pod.one.pod["spec"]);
  choose_pool(pod.one);
  choose_namespace(pod.one);
  pod.damaged = one_in(5);
  if (pod.damaged) damage(pod.one.pod);
  pod.shape = shape_;
  return pod;
}

}  // namespace larder::test
