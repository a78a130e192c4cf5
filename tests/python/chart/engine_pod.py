"""A pod like a user's: vLLM, annotated with the pool `chat`. The test's API server has no node, so
the pod never runs."""

import yaml

POD = """
apiVersion: v1
kind: Pod
metadata: {annotations: {larder.dev/pool: chat}}
spec:
  containers:
  - {name: vllm, image: vllm/vllm-openai, args: [--model, m], resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}}
"""


def engine_pod(name, **annotations):
    """`annotations`: in place of the pod's own."""
    pod = yaml.safe_load(POD)
    pod["metadata"]["name"] = name
    if annotations:
        pod["metadata"]["annotations"] = annotations
    return pod


def made_anew(cluster, namespace, name):
    """Whether the injector, possibly away before, has given the pod its cache now."""
    cluster.kubectl(
        "delete", "pod", name, "-n", namespace, "--ignore-not-found", "--grace-period=0", "--force"
    )
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=engine_pod(name))
    return injected(cluster, namespace, name)


def injected(cluster, namespace, name):
    return (
        "larder.dev/injected"
        in cluster.get("pod", name, "-n", namespace)["metadata"]["annotations"]
    )
