"""docs/kubernetes.md and the samples: what a reader copies works."""

import re
import shlex

import programs
import pytest
import yaml

PAGE = (programs.ROOT / "docs" / "kubernetes.md").read_text()
SAMPLES = sorted((programs.ROOT / "manifests" / "samples").glob("*.yaml"))


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def helm_commands():
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith(("helm install", "helm upgrade"))]


@pytest.fixture(scope="module")
def installed(cluster):
    with cluster.installed():
        yield cluster


def test_the_page_has_examples():
    assert len(blocks("yaml")) >= 4 and len(helm_commands()) >= 2


@pytest.mark.parametrize("text", blocks("yaml"), ids=lambda text: yaml.safe_load(text)["metadata"]["name"])
def test_an_example_is_accepted(installed, text):
    installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_load(text))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_accepted(installed, path):
    said = installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", path)
    assert "(server dry run)" in said


@pytest.mark.parametrize("command", helm_commands())
def test_a_command_names_values_that_are_there(helm, command):
    words = shlex.split(command)
    pairs = [(option, value) for option, value in zip(words, words[1:]) if option in ("--set", "--set-json")]
    assert pairs, "nothing to check; leave it out"
    helm("template", "larder", programs.CHART, "--kube-version", programs.KUBERNETES, *(word for pair in pairs for word in pair))


def test_larderctl_in_a_pod_is_told_whom_to_ask():
    """Nothing in the container names the pool's socket."""
    pages = [*(programs.ROOT / "docs").rglob("*.md"), programs.ROOT / "README.md"]
    told = [line for page in pages for line in re.findall(r"-c larder -- larderctl[^`\n]*", page.read_text())]
    assert len(told) >= 6
    assert [line for line in told if not re.search(r" --(socket /run/larder/|config /etc/larder/)", line)] == []


def test_the_smallest_pool_needs_nothing_else():
    (pool,) = yaml.safe_load_all((programs.ROOT / "manifests" / "samples" / "pool.yaml").read_text())
    assert set(pool["spec"]) == {"memory"}


def test_every_value_that_the_page_names_is_there():
    values = yaml.safe_load((programs.CHART / "values.yaml").read_text())
    named = set(re.findall(r"(?:value |--set )`?([a-z][A-Za-z]+(?:\.[a-z][A-Za-z]+)+)", PAGE)) | set(re.findall(r"\(`([a-z]+\.[a-z]+)`\)", PAGE))
    assert {"image.repository", "podGuard.enabled", "crds.install", "rbac.aggregate"} <= named
    for path in named:
        found = values
        for key in path.split("."):
            assert key in found, path
            found = found[key]
