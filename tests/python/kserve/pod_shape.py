"""A pod as its controller made it, without what differs from run to run, so that it can be a golden: labels and names by hashes,
uids, times, addresses of registries. Nothing of its spec goes but the token's volume, which only a cluster with accounts adds."""

import re

import yaml

HASHED = ("pod-template-hash",)
OF_THE_RUN = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def _without_host(image):
    """registry.example/a/b:1 -> a/b:1"""
    first, _, rest = image.partition("/")
    return rest if rest and ("." in first or ":" in first) else image


def shape_of(pod):
    """As YAML text. `pod`: as the API server gives it, or made of a template."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in OF_THE_RUN}
    suffix = metadata.get("labels", {}).get("pod-template-hash", "")
    for label in HASHED:
        metadata.get("labels", {}).pop(label, None)
    if suffix:
        metadata["generateName"] = metadata["generateName"].replace(f"-{suffix}-", "-")
    for owner in metadata.get("ownerReferences", []):
        owner.pop("uid", None)
        owner["name"] = re.sub(rf"-{suffix}$", "", owner["name"]) if suffix else owner["name"]
    spec = pod["spec"]
    spec.pop("nodeName", None)
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        container["image"] = _without_host(container["image"])
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, width=4096)


def pod_of_template(template, name, namespace):
    """The pod that a controller which is not here would make of it."""
    metadata = {**template.get("metadata", {}), "generateName": f"{name}-", "namespace": namespace}
    return {"metadata": metadata, "spec": template["spec"]}
