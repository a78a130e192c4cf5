"""helm and kubectl of these tests, and their source.

helm and the API server are built once into the cache folder (.ci/paths.sh names the folder);
LARDER_KUBERNETES_BIN names another folder."""

import os
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "larder"
FILES = CHART / "files"  # definitions, dashboards, rules
RENDERED = ROOT / "manifests" / "rendered" / "larder.yaml"
KUBERNETES = "1.34.4"  # the version for the goldens; helm's own default follows helm's build


def binaries():
    """The folder of helm and kube-apiserver, whether or not the programs are there."""
    named = os.environ.get("LARDER_KUBERNETES_BIN")
    if named:
        return Path(named)
    asked = subprocess.run(
        ["bash", "-c", ". ./paths.sh && echo $kubernetes/bin"],
        cwd=ROOT / ".ci",
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(asked.stdout.strip())


def find_helm():
    """None: helm is not built. A helm of the PATH is not taken: another version renders
    otherwise."""
    path = binaries() / "helm"
    return str(path) if path.exists() else None


def run(arguments, stdin=None, fails=False, env=None):
    """Runs a program; returns the output. `fails`: the program must fail; returns its standard
    error."""
    done = subprocess.run(
        arguments, input=stdin, capture_output=True, text=True, timeout=120, check=False, env=env
    )
    if fails:
        assert done.returncode != 0, f"{arguments} should have failed:\n{done.stdout}"
        return done.stderr
    assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Helm:
    def __init__(self, program, env=None):
        self.program = program
        self.env = env

    def __call__(self, *arguments, fails=False):
        return run([self.program, *map(str, arguments)], fails=fails, env=self.env)

    def template(
        self,
        release="larder",
        namespace="larder-system",
        kubernetes=KUBERNETES,
        values=None,
        settings=(),
        json=(),
        fails=False,
    ):
        """`helm template`; `values`: a file; `settings`, `json`: arguments of --set and
        --set-json."""
        arguments = [
            "template",
            release,
            CHART,
            "--namespace",
            namespace,
            "--kube-version",
            kubernetes,
        ]
        arguments += ["--values", values] if values else []
        for setting in settings:
            arguments += ["--set", setting]
        for setting in json:
            arguments += ["--set-json", setting]
        return self(*arguments, fails=fails)


def objects(text):
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(text, kind):
    return [one for one in objects(text) if one["kind"] == kind]


def the(text, kind):
    (one,) = of_kind(text, kind)
    return one
