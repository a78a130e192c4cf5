"""tests/lint: the checks of `make lint` that read pages. Each must be able to fail."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lint"))
import links  # noqa: E402
import pages  # noqa: E402
import words  # noqa: E402


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
    headings = lambda path: pages.anchors(path.read_text())  # noqa: E731
    found = list(links.broken_links(page, page.read_text(), headings))
    assert [why for _, why in found] == ([fault] if fault else [])


def test_a_name_of_a_page_that_is_gone_is_found():
    gone = "docs/" + "gone.md"
    why = f"names {gone}, which does not exist"
    assert list(links.broken_names(f"a line\n// {gone} tells more")) == [(2, why)]
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


def counted(text, suffix=".md"):
    return words.count(Path(f"page{suffix}"), text)


@pytest.mark.parametrize(
    "text, fault",
    [
        (
            "What comes late is refused. " + "The server closes the connection. " * 90,
            'a clause as subject: "What comes late is refused."',
        ),
        ("The page says what. " * 20, "what: 250.0 in 1,000 words, at most 2"),
        (
            "No slot holds nothing, and nobody reads. " * 20,
            "nobody/nothing/none: 285.7 in 1,000 words, at most 2",
        ),
        ("The slot gives it to those. " * 20, "pronouns: 333.3 in 1,000 words, at most 25"),
        (" ".join(["word"] * 30) + ".", "median sentence: 30 words, at most 25"),
        ("`what nobody it` and [text](what/it.md).\n\n```\nwhat\n```\n<!-- what -->", None),
        ("What does the cache cost? One step. " * 3, "what: 142.9 in 1,000 words, at most 2"),
        ("The server says what to do.", None),  # one is allowed in any page
    ],
)
def test_words_are_counted(text, fault):
    assert list(counted(text).faults()) == ([fault] if fault else [])


def test_of_a_source_comments_are_counted():
    source = 'int what = 0;  // the slot\n// what it is\nauto url = "http://what";\n'
    assert counted(source, ".h").words == 5


def test_the_pending_list_only_shrinks():
    good, bad = Path("good.md"), Path("bad.md")
    found = {good: counted("The slot is free."), bad: counted("What it is. " * 9)}
    check = lambda found, *pending: list(words.check(found, set(pending)))  # noqa: E731
    remove = "remove the line from words_pending.txt"
    assert {fault.split(":")[0] for fault in check(found)} == {"bad.md"}
    assert check(found, bad) == []
    assert check(found, bad, good) == [f"good.md: meets the limits: {remove}"]
    assert words.shrunk("# why\nbad.md\ngone.md\ngood.md\n", found) == "# why\nbad.md\n"
    assert check({good: found[good]}, bad) == [f"bad.md: is no page: {remove}"]
