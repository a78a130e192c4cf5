"""A real API server with Kubernetes' own controllers and KServe's, for all tests of this folder.
There is no node: pods are made and never start."""

import os
import subprocess
from types import SimpleNamespace

import pytest
from harness import cluster, kserve


@pytest.fixture(scope="session")
def plane(tmp_path_factory):
    """LARDER_TEST_KSERVE=1: missing programs are a failure, not a skip."""
    if not kserve.is_built() or not os.path.exists(
        f"{cluster.PATHS['kubernetes']}/bin/kube-controller-manager"
    ):
        assert not os.environ.get("LARDER_TEST_KSERVE"), (
            "KServe or Kubernetes is not built: make deps-kserve"
        )
        pytest.skip(f"no KServe in {kserve.HOME} (make deps-kserve)")
    script = str(cluster.ROOT / "tests" / "component" / "kube" / "apiserver.sh")
    folder = tmp_path_factory.mktemp("kserve")
    env = {**os.environ, "API_FLAGS": "--enable-aggregator-routing=true"}
    subprocess.run([script, "up", str(folder / "server")], env=env, check=True, timeout=180)
    kubeconfig = folder / "server" / "admin.kubeconfig"
    try:
        subprocess.run([script, "controllers", str(folder / "server")], check=True, timeout=60)
        with kserve.KServe(kubeconfig, folder / "kserve", clean=False) as controllers:
            yield SimpleNamespace(
                kserve=controllers, kubeconfig=kubeconfig, kubectl=_kubectl(controllers.env)
            )
    finally:
        subprocess.run([script, "down", str(folder / "server")], check=True, timeout=60)


def _kubectl(env):
    def call(*words, stdin=None):
        done = subprocess.run(
            ["kubectl", *map(str, words)],
            input=stdin,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"kubectl {words}: {done.stderr}"
        return done.stdout

    return call
