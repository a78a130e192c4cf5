"""KServe's services, written like a user's, with substitutes for things that this machine lacks.
The substitutes are vLLM of this machine's Python environment for an image of a registry, the model
of a claim for a hub's, no GPU. All other parts stay: runtimes, templates, scripts, probes."""

from __future__ import annotations

import copy
import shlex

from harness import engine_pod
from harness.cluster import PATHS

MODEL_URI = "pvc://model"  # engine_pod.claims() makes it
RUNTIME, HUGGINGFACE_RUNTIME = "vllm-here", "huggingface-here"
# e2e/cluster/cluster.sh load huggingfaceserver
HUGGINGFACE_IMAGE = "localhost/huggingfaceserver:e2e"
# 24 blocks of 128 tokens, so that two other prompts evict one.
SMALL_CACHE = [
    "--enforce-eager",
    "--max-model-len=2048",
    "--num-gpu-blocks-override=24",
    "--seed=0",
    "--enable-prompt-tokens-details",
]
PATH = f"{PATHS['venv']}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOUNT = {"name": "vllm", "mountPath": PATHS["venv"], "readOnly": True}
_VOLUME = {"name": "vllm", "persistentVolumeClaim": {"claimName": "vllm", "readOnly": True}}


def _variables(values: dict[str, str]) -> list[dict]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _environment(**more: str) -> list[dict]:
    return _variables({**engine_pod.ENVIRONMENT, "PATH": PATH, **more})


def _runtime(
    published: dict, name: str, image: str, environment: list[dict], more: list[str] = ()
) -> dict:
    """KServe's own ClusterServingRuntime, as a runtime of one namespace that runs here. `more`:
    claims beside vLLM's."""
    spec = copy.deepcopy(published["spec"])
    (container,) = spec["containers"]
    container["image"] = image
    container["env"] += environment
    container["volumeMounts"] += [
        _MOUNT,
        *({"name": one, "mountPath": PATHS[one], "readOnly": True} for one in more),
    ]
    spec["volumes"] += [
        _VOLUME,
        *(
            {"name": one, "persistentVolumeClaim": {"claimName": one, "readOnly": True}}
            for one in more
        ),
    ]
    for one in spec["supportedModelFormats"]:
        one["autoSelect"] = False
    return {
        "apiVersion": published["apiVersion"],
        "kind": "ServingRuntime",
        "metadata": {"name": name, "annotations": published["metadata"].get("annotations", {})},
        "spec": spec,
    }


def runtime(published: dict) -> dict:
    """For vLLM."""
    return _runtime(published, RUNTIME, engine_pod.IMAGE, _environment())


def huggingface_runtime(published: dict) -> dict:
    """For KServe's Hugging Face server. The image here has the entrypoint, folders and variables of
    KServe's own, but no C++ compiler."""
    environment = _variables({**engine_pod.ENVIRONMENT, "HOME": "/tmp", "TORCHDYNAMO_DISABLE": "1"})
    return _runtime(published, HUGGINGFACE_RUNTIME, HUGGINGFACE_IMAGE, environment, ["huggingface"])


def inference_service(
    given: dict, runtime: str = RUNTIME, flags: list[str] = engine_pod.FLAGS
) -> dict:
    """runtimeVersion: else KServe makes `-cpu` of the image's name where no GPU is asked for."""
    service = copy.deepcopy(given)
    model = service["spec"]["predictor"]["model"]
    model |= {
        "runtime": runtime,
        "runtimeVersion": engine_pod.IMAGE.rpartition(":")[2],
        "storageUri": MODEL_URI,
        "resources": engine_pod.RESOURCES,
    }
    model["args"] = [
        one for one in model.get("args", []) if not one.startswith("--max-model-len")
    ] + flags
    return service


def huggingface_service(given: dict) -> dict:
    """Of the sample for KServe's vLLM runtime, with the other model format. The server has no
    request that empties vLLM's own cache. The cache is as small as two prompts, so that other
    prompts drive one out."""
    service = inference_service(
        given, HUGGINGFACE_RUNTIME, ["--backend=vllm", "--model_name=qwen", *SMALL_CACHE]
    )
    service["spec"]["predictor"]["model"]["modelFormat"]["name"] = "huggingface"
    return service


def llm_inference_service(given: dict) -> dict:
    """runAsUser: KServe's template asks for a user other than root, and leaves the name to the
    image."""
    service = copy.deepcopy(given)
    service["spec"]["model"]["uri"] = MODEL_URI
    template = service["spec"]["template"]
    template.setdefault("volumes", []).append(_VOLUME)
    (container,) = template["containers"]
    container |= {
        "image": engine_pod.IMAGE,
        "resources": engine_pod.RESOURCES,
        "volumeMounts": [_MOUNT],
    }
    container["env"] = _environment(VLLM_ADDITIONAL_ARGS=shlex.join(engine_pod.FLAGS))
    container["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000}
    return service
