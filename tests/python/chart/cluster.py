"""A real kube-apiserver without controllers (tests/component/kube), and the chart installed
there."""

import contextlib
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

import programs
import yaml

OPERATOR = "system:serviceaccount:larder-system:larder-operator"
POOL = {
    "apiVersion": "larder.dev/v1alpha1",
    "kind": "CachePool",
    "metadata": {"name": "pool"},
    "spec": {"memory": {"size": "1Gi"}},
}


class Cluster:
    def __init__(self, kubeconfig, helm):
        kubectl = programs.binaries() / "kubectl"
        self.pki = kubeconfig.parent / "pki"
        self.audit = kubeconfig.parent.parent / "audit.log"
        self.program = str(kubectl) if kubectl.exists() else "kubectl"
        self.env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self.helm = programs.Helm(helm.program, {**helm.env, "KUBECONFIG": str(kubeconfig)})

    def kubectl(self, *arguments, stdin=None, fails=False):
        if isinstance(stdin, (dict, list)):
            stdin = yaml.safe_dump_all(stdin if isinstance(stdin, list) else [stdin])
        return programs.run(
            [self.program, *map(str, arguments)], stdin=stdin, fails=fails, env=self.env
        )

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def merge(self, path, change, account):
        """A JSON merge patch without a read (kubectl reads first); the API server's error, "" on
        success."""
        server = yaml.safe_load(Path(self.env["KUBECONFIG"]).read_text())["clusters"][0]["cluster"][
            "server"
        ]
        context = ssl.create_default_context(cafile=self.pki / "ca.crt")
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        headers = {"Content-Type": "application/merge-patch+json", "Impersonate-User": account}
        request = urllib.request.Request(
            server + path, json.dumps(change).encode(), headers, method="PATCH"
        )
        try:
            with urllib.request.urlopen(request, context=context, timeout=30):
                return ""
        except urllib.error.HTTPError as refused:
            return json.load(refused)["message"]

    def namespace(self, name, labels=None):
        self.kubectl(
            "apply",
            "-f",
            "-",
            stdin={
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels or {}},
            },
        )

    def install(self, *arguments, release="larder", namespace="larder-system", fails=False):
        return self.helm(
            "install",
            release,
            programs.CHART,
            "-n",
            namespace,
            "--create-namespace",
            *arguments,
            fails=fails,
        )

    def upgrade(self, *arguments, release="larder", namespace="larder-system"):
        return self.helm("upgrade", release, programs.CHART, "-n", namespace, *arguments)

    def uninstall(self, release="larder", namespace="larder-system"):
        return self.helm("uninstall", release, "-n", namespace)

    @contextlib.contextmanager
    def installed(self, *arguments, release="larder", namespace="larder-system"):
        """The chart, during the block; its definitions go too. Yields the output of `helm
        install`."""
        said = self.install(*arguments, release=release, namespace=namespace)
        self.kubectl(
            "wait",
            "--for=condition=Established",
            "--timeout=120s",
            "crd/cachepools.larder.dev",
            "crd/cachebackends.larder.dev",
        )
        try:
            yield said
        finally:
            if release in self.helm("list", "-q", "-n", namespace).split():
                self.uninstall(release, namespace)
            self.remove_definitions()

    def remove_definitions(self):
        """With all pools. The operator is gone, so that no other program would free pools of
        placement Node (docs/guides/upgrade-remove.md)."""
        if "cachepools.larder.dev" in self.kubectl("get", "crd", "-o", "name"):
            columns = ("-o", "custom-columns=:metadata.namespace,:metadata.name", "--no-headers")
            for namespace, pool in map(
                str.split, self.kubectl("get", "cachepools", "-A", *columns).splitlines()
            ):
                self.kubectl(
                    "patch",
                    "cachepool",
                    pool,
                    "-n",
                    namespace,
                    "--type=merge",
                    "-p",
                    '{"metadata": {"finalizers": null}}',
                )
        self.kubectl(
            "delete",
            "crd",
            "cachepools.larder.dev",
            "cachebackends.larder.dev",
            "--ignore-not-found",
        )


def eventually(happens, seconds=60):
    """Waits for knowledge that the API server gets by a watch of its own."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.2)
