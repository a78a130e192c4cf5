"""Commands of guides for other clusters, as they stand there, against a real API server. No kubelet
and no operator runs here: pods stay Pending, and the webhook gives no answer."""

import re
import shlex
import subprocess
from pathlib import Path

import programs
import pytest
from cluster import eventually

GUIDES = programs.ROOT / "docs" / "guides"


def commands(guide):
    """The commands of a guide for helm and kubectl, by their first words."""
    text = (GUIDES / guide).read_text()
    lines = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    return [line for line in lines if line.startswith(("helm", "kubectl"))]


@pytest.fixture
def follow(cluster):
    """follow(command): the output, in a checkout with helm and kubectl in PATH."""
    folders = {str(Path(program).parent) for program in (cluster.program, cluster.helm.program) if "/" in program}
    env = {**cluster.helm.env, "PATH": ":".join([*folders, cluster.env["PATH"]])}

    def run(command):
        done = subprocess.run(["bash", "-c", command], cwd=programs.ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    yield run
    if "larder" in cluster.helm("list", "-q", "-n", "larder-system").split():
        cluster.uninstall()
    cluster.remove_definitions()


def operator(cluster):
    return cluster.get("deployment", "larder-operator", "-n", "larder-system")["spec"]["template"]["spec"]


def port(cluster):
    (container,) = operator(cluster)["containers"]
    return {one["name"]: one["containerPort"] for one in container["ports"]}["webhook"]


def test_a_webhook_that_is_not_reached_is_counted(cluster, follow):
    probe, count, *_ = commands("control-plane.md")
    cluster.install()
    cluster.namespace("models")

    def counted():
        assert "(server dry run)" in follow(probe)  # the pod starts nevertheless
        return "fail_open_count" in follow(f"{count} || true")

    eventually(counted)
    assert follow(count)


def test_the_webhook_listens_where_a_firewall_is_open(cluster, follow):
    _, _, upgrade, *_ = commands("control-plane.md")
    cluster.install("--set", "replicas=3")
    follow(upgrade)
    assert port(cluster) == 10250
    assert cluster.get("deployment", "larder-operator", "-n", "larder-system")["spec"]["replicas"] == 3


def test_the_operator_goes_into_the_nodes_network(cluster, follow):
    *_, label, upgrade = commands("control-plane.md")
    cluster.install()
    follow(label)
    follow(upgrade)
    assert port(cluster) == 10260 and operator(cluster)["hostNetwork"]
    follow(label.replace("=privileged", "-"))


def test_every_image_comes_from_the_mirror(cluster, follow):
    (install,) = commands("closed-networks.md")
    mirror = dict(one.split("=", 1) for one in shlex.split(install) if "=" in one)["global.imageRegistry"]
    follow(install)
    (container,) = operator(cluster)["containers"]
    assert container["image"].startswith(f"{mirror}/larder:")


def test_openshift_chooses_the_operators_user(cluster, follow):
    (install,) = commands("openshift.md")
    follow(install)
    context = operator(cluster)["securityContext"]
    assert context and not {"runAsUser", "runAsGroup"} & set(context)
