"""docs/get-started/kserve.md and the pages of other stacks: the API server accepts the YAML, and
the YAML equals the samples. `make e2e-kserve` follows the first page in a cluster, command by
command."""

import re

import pytest
import yaml
from harness.cluster import ROOT

SAMPLES = ROOT / "manifests" / "samples"
KSERVE = sorted((SAMPLES / "kserve").glob("*.yaml"))
PAGES = {"guides/production-stack": "production-stack-values", "guides/llm-d": "llm-d-values"}


def text_of(page):
    return (ROOT / "docs" / f"{page}.md").read_text()


def blocks(page):
    return re.findall(r"```yaml\n(.*?)```", text_of(page), re.DOTALL)


@pytest.fixture(scope="module")
def accepted(plane):
    for path in (ROOT / "charts" / "larder" / "files" / "crds").glob("*.yaml"):
        plane.kubectl("apply", "--server-side", "-f", path)
    plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=120s", "crd/cachepools.larder.dev"
    )
    return lambda text: plane.kubectl(
        "-n", "default", "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text
    )


@pytest.mark.parametrize(
    "text", blocks("get-started/kserve"), ids=lambda text: yaml.safe_load(text)["kind"]
)
def test_an_example_is_accepted(accepted, text):
    assert "(server dry run)" in accepted(text)


@pytest.mark.parametrize("path", KSERVE, ids=lambda path: path.stem)
def test_a_sample_is_accepted(accepted, path):
    assert "(server dry run)" in accepted(path.read_text())


def part_of(part, whole):
    """Whether `whole` has all values of `part`."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and part_of(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list) and len(part) == len(whole) and all(map(part_of, part, whole))
        )
    return part == whole


@pytest.mark.parametrize(
    "text", blocks("get-started/kserve"), ids=lambda text: yaml.safe_load(text)["kind"]
)
def test_an_example_is_part_of_its_sample(text):
    example = yaml.safe_load(text)
    assert any(part_of(example, yaml.safe_load(path.read_text())) for path in KSERVE)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_matches_its_sample(page):
    (example,) = blocks(page)
    sample = SAMPLES / "stacks" / f"{PAGES[page]}.yaml"
    assert part_of(yaml.safe_load(example), yaml.safe_load(sample.read_text()))
    assert str(sample.relative_to(ROOT)) in text_of(page)
