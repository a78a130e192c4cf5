"""helm for all tests of the chart, and a real API server for the tests that install the chart."""

import base64
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import programs  # noqa: E402
import yaml  # noqa: E402
from cluster import OPERATOR, Cluster  # noqa: E402

# Requests to the API server from the operator alone.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata", "users": [OPERATOR]}, {"level": "None"}],
}


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    program = programs.find_helm()
    if program is None:
        pytest.skip(f"no helm in {programs.binaries()} (make deps-kubernetes)")
    home = tmp_path_factory.mktemp("helm")  # nobody's own repositories and plugins
    return programs.Helm(
        program,
        {
            **os.environ,
            "HELM_CONFIG_HOME": str(home),
            "HELM_CACHE_HOME": str(home),
            "HELM_DATA_HOME": str(home),
        },
    )


@pytest.fixture(scope="session")
def rendered(helm):
    return helm.template()


@pytest.fixture(scope="session")
def cluster(helm, tmp_path_factory):
    if not (programs.binaries() / "kube-apiserver").exists():
        pytest.skip(f"no kube-apiserver in {programs.binaries()} (make deps-kubernetes)")
    script = programs.ROOT / "tests" / "component" / "kube" / "apiserver.sh"
    folder = tmp_path_factory.mktemp("kube") / "apiserver"
    folder.mkdir()
    (folder.parent / "policy.yaml").write_text(yaml.safe_dump(AUDIT))
    flags = (
        f"--audit-policy-file={folder.parent}/policy.yaml "
        f"--audit-log-path={folder.parent}/audit.log"
    )
    # Endpoints are asked directly: no kube-proxy gives Services their addresses here.
    programs.run(
        [str(script), "up", str(folder)],
        env={**os.environ, "API_FLAGS": flags + " --enable-aggregator-routing=true"},
    )
    yield Cluster(folder / "admin.kubeconfig", helm)
    programs.run([str(script), "down", str(folder)])


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Some certificate, in the form of a caBundle that the API server can read."""
    folder = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "
        "/CN=test -keyout key -out crt"
    )
    programs.run(["bash", "-c", f"cd {folder} && {command}"])
    return base64.b64encode((folder / "crt").read_bytes()).decode()
