"""KServe's services as a user writes them, with what this machine has in the place of what it lacks: vLLM of its Python environment for
an image of a registry, the model of a claim for a hub's, no GPU. All else stays: runtimes, templates, scripts, probes."""

from __future__ import annotations

import copy
import shlex

from harness import engine_pod
from harness.cluster import PATHS

MODEL_URI = "pvc://model"  # engine_pod.claims() makes it
RUNTIME = "vllm-here"
PATH = f"{PATHS['venv']}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOUNT = {"name": "vllm", "mountPath": PATHS["venv"], "readOnly": True}
_VOLUME = {"name": "vllm", "persistentVolumeClaim": {"claimName": "vllm", "readOnly": True}}


def _environment(**more: str) -> list[dict]:
    return [{"name": name, "value": value} for name, value in {**engine_pod.ENVIRONMENT, "PATH": PATH, **more}.items()]


def runtime(published: dict) -> dict:
    """KServe's own ClusterServingRuntime for vLLM, as a runtime of one namespace that runs here."""
    spec = copy.deepcopy(published["spec"])
    (container,) = spec["containers"]
    container["image"] = engine_pod.IMAGE
    container["env"] += _environment()
    container["volumeMounts"].append(_MOUNT)
    spec["volumes"].append(_VOLUME)
    for one in spec["supportedModelFormats"]:
        one["autoSelect"] = False
    return {"apiVersion": published["apiVersion"], "kind": "ServingRuntime",
            "metadata": {"name": RUNTIME, "annotations": published["metadata"].get("annotations", {})}, "spec": spec}


def inference_service(given: dict) -> dict:
    """runtimeVersion: else KServe makes `-cpu` of the image's name where no GPU is asked for."""
    service = copy.deepcopy(given)
    model = service["spec"]["predictor"]["model"]
    model |= {"runtime": RUNTIME, "runtimeVersion": engine_pod.IMAGE.rpartition(":")[2], "storageUri": MODEL_URI,
              "resources": engine_pod.RESOURCES}
    model["args"] = [one for one in model.get("args", []) if not one.startswith("--max-model-len")] + engine_pod.FLAGS
    return service


def llm_inference_service(given: dict) -> dict:
    """runAsUser: KServe's template asks for a user that is not root, and leaves it to the image to name one."""
    service = copy.deepcopy(given)
    service["spec"]["model"]["uri"] = MODEL_URI
    template = service["spec"]["template"]
    template.setdefault("volumes", []).append(_VOLUME)
    (container,) = template["containers"]
    container |= {"image": engine_pod.IMAGE, "resources": engine_pod.RESOURCES, "volumeMounts": [_MOUNT]}
    container["env"] = _environment(VLLM_ADDITIONAL_ARGS=shlex.join(engine_pod.FLAGS))
    container["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000}
    return service
