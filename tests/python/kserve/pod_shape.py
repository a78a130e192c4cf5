"""A pod as its controller made the pod, for a golden file. Left out are the values of one run:
labels and names from hashes, uids, times, addresses of registries. Of the spec only nodeName goes;
a token's volume would come from a cluster with accounts alone."""

import re

import yaml

HASHED = ("pod-template-hash",)
OF_THE_RUN = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def _without_host(image):
    """registry.example/a/b:1 -> a/b:1"""
    first, _, rest = image.partition("/")
    return rest if rest and ("." in first or ":" in first) else image


def shape_of(pod):
    """The shape as YAML text. `pod`: from the API server, or made of a template."""
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
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, width=4096
    )


def pod_of_template(template, name, namespace):
    """The pod that a missing controller would make of the template."""
    metadata = {**template.get("metadata", {}), "generateName": f"{name}-", "namespace": namespace}
    return {"metadata": metadata, "spec": template["spec"]}
