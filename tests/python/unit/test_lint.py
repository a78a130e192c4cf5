"""tests/lint: the checks of `make lint` that read pages. Each must be able to fail."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lint"))
import links  # noqa: E402
import pages  # noqa: E402


def test_every_link_leads_somewhere():
    assert links.check() == []


@pytest.mark.parametrize(
    "text, fault",
    [
        ("see [a](missing.md)", "links to missing.md, which does not exist"),
        ("[a](there.md#no)", "links to there.md#no: there.md has no such heading"),
        ("[a](#no)", "links to #no: page.md has no such heading"),
        ('[a](missing.md "title")', "links to missing.md, which does not exist"),
        ("![p](missing.svg)", "links to missing.svg, which does not exist"),
        ("[a](there.md#one-two-1), [b](#here), [c](https://example/x)", None),
        ("`[a](missing.md)`", None),
        ("```\n[a](missing.md)\n```\n", None),
        ("<!-- [a](missing.md) -->", None),
    ],
)
def test_a_broken_link_is_found(tmp_path, text, fault):
    (tmp_path / "there.md").write_text("# One: `two`\n# One two\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n{text}\n")
    found = list(links.broken_links(page, page.read_text(), lambda path: pages.anchors(path.read_text())))
    assert [why for _, why in found] == ([fault] if fault else [])


def test_a_name_of_a_page_that_is_gone_is_found():
    gone = "docs/" + "gone.md"
    assert list(links.broken_names(f"a line\n// {gone} tells more")) == [(2, f"names {gone}, which does not exist")]
    assert list(links.broken_names("docs/README.md, ../docs/x.md, https://docs/y.md")) == []


@pytest.mark.parametrize(
    "title, name",
    [
        ("## 1. The image into your registry", "1-the-image-into-your-registry"),
        ("### `kubectl larder`: A / B", "kubectl-larder-a--b"),
        ("# See [this](x.md)!", "see-this"),
        ("## KServe's own kvCacheOffloading", "kserves-own-kvcacheoffloading"),
    ],
)
def test_anchors_are_named_as_github_names_them(title, name):
    assert pages.anchors(title) == {name}
