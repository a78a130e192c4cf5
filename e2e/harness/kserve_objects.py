"""KServe's published objects for the API server, pointed at controllers of this machine: text in,
text out."""

from __future__ import annotations

import json

import yaml

# KServe's definitions have megabytes, and libyaml needs a tenth of the time.
_LOADER, _DUMPER = (
    getattr(yaml, "CSafeLoader", yaml.SafeLoader),
    getattr(yaml, "CSafeDumper", yaml.SafeDumper),
)
LABEL = {"larder.dev/test": "kserve"}  # selects the webhooks at the end


def _objects(text: str) -> list[dict]:
    return [one for one in yaml.load_all(text, Loader=_LOADER) if one]


def _text(objects: list[dict]) -> str:
    return yaml.dump_all(objects, Dumper=_DUMPER)


def definitions(text: str, url: str, authority: str) -> str:
    """CRDs whose conversion webhook is at `url`. `authority`: a caBundle."""
    found = _objects(text)
    for one in found:
        one["metadata"].get("annotations", {}).pop("cert-manager.io/inject-ca-from", None)
        if webhook := one["spec"].get("conversion", {}).get("webhook"):
            webhook["clientConfig"] = {"url": f"{url}/convert", "caBundle": authority}
    return _text(found)


def webhooks(text: str, url: str, authority: str) -> str:
    found = [one for one in _objects(text) if one["kind"].endswith("WebhookConfiguration")]
    for one in found:
        one["metadata"]["labels"] = LABEL
        for hook in one["webhooks"]:
            hook["clientConfig"] = {
                "url": url + hook["clientConfig"]["service"]["path"],
                "caBundle": authority,
            }
    return _text(found)


def configuration(text: str, namespace: str) -> str:
    """inferenceservice-config for Standard mode without an ingress, after the section of
    docs/get-started/kserve.md about a cluster without Knative and Istio."""
    (config,) = _objects(text)
    config["metadata"]["namespace"] = namespace
    config["data"].pop("_example", None)
    config["data"]["deploy"] = json.dumps({"defaultDeploymentMode": "Standard"})
    ingress = json.loads(config["data"]["ingress"])
    config["data"]["ingress"] = json.dumps(
        ingress | {"disableIngressCreation": True, "disableIstioVirtualHost": True}
    )
    return _text([config])
