"""Settings of a platform: the network of the operator's pods, a registry for all images, the chart
inside another."""

import programs
import pytest
import yaml


def pod_of(text):
    return programs.the(text, "Deployment")["spec"]["template"]["spec"]


def arguments(text):
    (container,) = pod_of(text)["containers"]
    return dict(one.removeprefix("--").split("=", 1) for one in container["args"])


def test_the_host_network_uses_the_configured_ports_and_cluster_dns(helm):
    text = helm.template(
        settings=[
            "hostNetwork=true",
            "ports.webhook=10260",
            "ports.metrics=10261",
            "ports.health=10262",
        ]
    )
    pod = pod_of(text)
    assert pod["hostNetwork"] is True and pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"webhook": 10260, "metrics": 10261, "health": 10262}
    told = arguments(text)
    assert {name: int(told[f"{name}-address"].split(":")[1]) for name in ports} == ports
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "health"
    for service in programs.of_kind(text, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(ports)
    # Two pods of one node would want the same ports. A new pod waits for an old pod to go, and no
    # policy promises more than it holds.
    assert programs.the(text, "Deployment")["spec"]["strategy"]["rollingUpdate"] == {
        "maxUnavailable": 1,
        "maxSurge": 0,
    }
    assert not programs.of_kind(text, "NetworkPolicy")


def test_a_configured_dns_policy_wins(helm):
    assert (
        pod_of(helm.template(settings=["hostNetwork=true", "dnsPolicy=Default"]))["dnsPolicy"]
        == "Default"
    )
    assert "dnsPolicy" not in pod_of(helm.template())


def test_the_hosts_network_is_accepted_where_pods_are_privileged(cluster, helm):
    cluster.namespace("host", {"pod-security.kubernetes.io/enforce": "privileged"})
    deployment = programs.the(helm.template(settings=["hostNetwork=true"]), "Deployment")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator"},
        "spec": deployment["spec"]["template"]["spec"],
    }
    cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-n", "host", "-f", "-", stdin=pod
    )
    deployment["metadata"]["namespace"] = "host"
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=deployment)


REPOSITORIES = {
    "localhost/larder": "larder",
    "docker.io/team/larder": "team/larder",
    "registry.example:5000/platform/larder": "platform/larder",
    "team/larder": "team/larder",
    "larder": "larder",
}


@pytest.mark.parametrize("registry", ["mirror.example", "mirror.example:5000/hub/"])
@pytest.mark.parametrize("repository", REPOSITORIES)
def test_one_registry_for_every_image(helm, repository, registry):
    text = helm.template(
        settings=[f"image.repository={repository}", f"global.imageRegistry={registry}"]
    )
    image = f"{registry.rstrip('/')}/{REPOSITORIES[repository]}:0.1.0"
    told = arguments(text)
    assert told["image"] == image == pod_of(text)["containers"][0]["image"]
    assert told["image-registry"] == registry.rstrip("/")


def test_a_digest_stays(helm):
    digest = "sha256:" + "0" * 64
    assert (
        arguments(
            helm.template(settings=["global.imageRegistry=m.example", f"image.digest={digest}"])
        )["image"]
        == f"m.example/larder@{digest}"
    )


@pytest.fixture
def umbrella(tmp_path):
    """A chart around this one, like a user's."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "larder").symlink_to(programs.CHART)
    dependency = {
        "name": "larder",
        "version": "0.1.0",
        "repository": "file://charts/larder",
        "condition": "larder.enabled",
    }
    (tmp_path / "Chart.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v2",
                "name": "platform",
                "version": "1.0.0",
                "dependencies": [dependency],
            }
        )
    )
    return tmp_path


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"larder": {}},
        {"larder": {"enabled": True}},
        {"global": {"imageRegistry": None, "theirs": [1]}},
        {"global": None},
    ],
)
def test_a_chart_around_this_one_switches_it(helm, umbrella, values):
    (umbrella / "values.yaml").write_text(yaml.safe_dump(values))
    rendered = helm("template", "larder", umbrella, "--kube-version", programs.KUBERNETES)
    assert len(programs.objects(rendered)) == len(
        programs.objects(helm.template(namespace="default"))
    )
    assert not programs.objects(
        helm(
            "template",
            "larder",
            umbrella,
            "--kube-version",
            programs.KUBERNETES,
            "--set",
            "larder.enabled=false",
        )
    )


def test_a_chart_around_this_one_gives_its_registry(helm, umbrella):
    (umbrella / "values.yaml").write_text(
        yaml.safe_dump({"global": {"imageRegistry": "mirror.example"}})
    )
    rendered = helm("template", "larder", umbrella, "--kube-version", programs.KUBERNETES)
    assert arguments(rendered)["image"] == "mirror.example/larder:0.1.0"
