"""The pages for Kubernetes and the samples: the commands that a reader copies work."""

import re
import shlex

import programs
import pytest
import yaml

DOCS = programs.ROOT / "docs"
HOUR = DOCS / "get-started" / "kubernetes.md"
PAGE = HOUR.read_text()
FOLDERS = ("get-started", "guides", "concepts", "reference")
PAGES = {
    path: path.read_text() for folder in FOLDERS for path in sorted((DOCS / folder).glob("*.md"))
}
KINDS = ("larder.dev", "scheduling.k8s.io", "networking.k8s.io", "v1")  # known to this API server
SAMPLES = sorted((programs.ROOT / "manifests" / "samples").glob("*.yaml"))


def blocks(language, page=PAGE):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def helm_commands():
    return [
        line
        for page in PAGES.values()
        for block in blocks("sh", page)
        for line in block.splitlines()
        if line.startswith(("helm install", "helm upgrade"))
    ]


def ours(page):
    found = [text for text in blocks("yaml", page) if text.startswith("apiVersion: ")]
    return [text for text in found if yaml.safe_load(text)["apiVersion"].split("/")[0] in KINDS]


EXAMPLES = [text for page in PAGES.values() for text in ours(page)]


@pytest.fixture(scope="module")
def installed(cluster):
    with cluster.installed():
        yield cluster


def test_the_pages_have_examples():
    assert len(EXAMPLES) >= 7 and len(helm_commands()) >= 6


@pytest.mark.parametrize(
    "text", EXAMPLES, ids=lambda text: yaml.safe_load(text)["metadata"]["name"]
)
def test_an_example_is_accepted(installed, text):
    installed.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_load(text)
    )


def hour():
    """The commands of the first hour, in their order."""
    steps = PAGE[PAGE.index("\n## 1. ") : PAGE.index("\n## Next")]
    return [line for block in blocks("sh", steps) for line in block.splitlines()]


NEEDS_NODES = ("rollout status", " exec ")  # no kubelet runs here: the pods of these stay Pending


def test_the_first_hour_fits_together(installed, monkeypatch):
    """Every command of kubectl, unchanged and in order, in the namespace of the page."""
    monkeypatch.chdir(programs.ROOT)
    commands = hour()
    assert len([line for line in commands if line.startswith("kubectl")]) >= 10
    pool, deployment = "chat", "chat"
    ran = 0
    for line in commands:
        words = shlex.split(line, comments=True)
        if words[:1] != ["kubectl"] or "larder-system" in words:
            continue
        named = words[words.index("-n") + 1] if "-n" in words else ""
        assert named == "models" or words[1:3] == ["create", "namespace"], line
        if any(skipped in line for skipped in NEEDS_NODES):
            continue
        if words[1:3] == ["create", "namespace"]:  # other tests have one of this name
            words.append(
                "--dry-run=client"
                if "models" in installed.kubectl("get", "namespaces", "-o", "name")
                else "--dry-run=none"
            )
        installed.kubectl(*words[1:])
        ran += 1
    assert ran >= 6
    assert installed.get("cachepool", pool, "-n", "models")["spec"]["memory"]["size"] == "8Gi"
    template = installed.get("deployment", deployment, "-n", "models")["spec"]["template"]
    assert template["metadata"]["annotations"]["larder.dev/pool"] == pool
    installed.kubectl("delete", "deployment/chat", "secret/my-registry", "-n", "models")


def test_without_helm_the_image_is_named_everywhere():
    """The one command of the page leaves no image of nobody's registry."""
    (line,) = [line for line in hour() if line.startswith("sed ")]
    (script,) = [word for word in shlex.split(line) if word.startswith("s#")]
    _, old, new, _ = script.split("#")
    manifest = programs.RENDERED.read_text()
    assert manifest.count(old) >= 2
    replaced = programs.run(["sed", script, str(programs.RENDERED)])
    assert "localhost/" not in replaced and replaced.count(new) == manifest.count(old)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_accepted(installed, path):
    said = installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", path)
    assert "(server dry run)" in said


@pytest.mark.parametrize("command", helm_commands())
def test_a_command_names_existing_values(helm, command):
    words = shlex.split(command)
    pairs = [
        (option, value)
        for option, value in zip(words, words[1:])
        if option in ("--set", "--set-json")
    ]
    assert pairs, "nothing to check; leave it out"
    helm(
        "template",
        "larder",
        programs.CHART,
        "--kube-version",
        programs.KUBERNETES,
        *(word for pair in pairs for word in pair),
    )


def test_larderctl_in_a_pod_names_its_socket():
    """The container does not name the pool's socket."""
    pages = [*DOCS.rglob("*.md"), programs.ROOT / "README.md"]
    told = [
        line
        for page in pages
        for line in re.findall(r"-c larder -- larderctl[^`\n]*", page.read_text())
    ]
    assert len(told) >= 6
    assert [
        line
        for line in told
        if not re.search(r" --(socket /run/larder/|config /etc/larder/)", line)
    ] == []


def test_the_smallest_pool_needs_nothing_else():
    (pool,) = yaml.safe_load_all(
        (programs.ROOT / "manifests" / "samples" / "pool.yaml").read_text()
    )
    assert set(pool["spec"]) == {"memory"}


def test_every_value_named_on_the_pages_exists():
    values = yaml.safe_load((programs.CHART / "values.yaml").read_text())
    text = PAGE + (DOCS / "reference" / "permissions.md").read_text()
    named = set(re.findall(r"value\s+`([a-z][A-Za-z]+(?:\.[a-z][A-Za-z]+)+)", text)) | set(
        re.findall(r"\(`([a-z]+\.[a-z]+)`\)", text)
    )
    set_here = set(re.findall(r"--set ([a-z][A-Za-z.]+)=", " ".join(PAGES.values())))
    assert {"podGuard.enabled", "rbac.aggregate"} <= named and {
        "image.repository",
        "crds.install",
    } <= set_here
    for path in named | set_here:
        found = values
        for key in path.split("."):
            assert key in found, path
            found = found[key]
