"""What KServe publishes for the API server, pointed at controllers of this machine: text in, text out."""

from __future__ import annotations

import json

import yaml

LABEL = {"larder.dev/test": "kserve"}  # by which its webhooks are found again


def _objects(text: str) -> list[dict]:
    return [one for one in yaml.safe_load_all(text) if one]


def definitions(text: str, url: str, authority: str) -> str:
    """CRDs whose conversion webhook is at `url`. `authority`: a caBundle."""
    found = _objects(text)
    for one in found:
        one["metadata"].get("annotations", {}).pop("cert-manager.io/inject-ca-from", None)
        if webhook := one["spec"].get("conversion", {}).get("webhook"):
            webhook["clientConfig"] = {"url": f"{url}/convert", "caBundle": authority}
    return yaml.safe_dump_all(found)


def webhooks(text: str, url: str, authority: str) -> str:
    found = [one for one in _objects(text) if one["kind"].endswith("WebhookConfiguration")]
    for one in found:
        one["metadata"]["labels"] = LABEL
        for hook in one["webhooks"]:
            hook["clientConfig"] = {"url": url + hook["clientConfig"]["service"]["path"], "caBundle": authority}
    return yaml.safe_dump_all(found)


def configuration(text: str, namespace: str) -> str:
    """inferenceservice-config for Standard mode without an ingress: what docs/kserve.md says of a cluster without Knative and Istio."""
    (config,) = _objects(text)
    config["metadata"]["namespace"] = namespace
    config["data"].pop("_example", None)
    config["data"]["deploy"] = json.dumps({"defaultDeploymentMode": "Standard"})
    ingress = json.loads(config["data"]["ingress"])
    config["data"]["ingress"] = json.dumps(ingress | {"disableIngressCreation": True, "disableIstioVirtualHost": True})
    return yaml.safe_dump(config)
