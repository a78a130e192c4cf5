""".ci/docs/site.py: MkDocs renders pages as GitHub does. No MkDocs needed."""

import importlib.util
import sys
import types

import pytest


@pytest.fixture
def site(root, monkeypatch):
    for name in ("mkdocs", "mkdocs.exceptions", "mkdocs.structure", "mkdocs.structure.files"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["mkdocs.exceptions"].PluginError = type("PluginError", (Exception,), {})
    sys.modules["mkdocs.structure.files"].File = object
    spec = importlib.util.spec_from_file_location("docs_site", root / ".ci" / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "text, rendered",
    [
        ("Two:\n- a\n- b", "Two:\n\n- a\n- b"),
        ("- a\n  more\n  - nested\n", "- a\n    more\n    - nested\n"),
        (
            "1. a\n\n   ```sh\n   run\n     deep\n   ```\n\n2. b",
            "1. a\n\n    ```sh\n    run\n      deep\n    ```\n\n2. b",
        ),
        ("```sh\n- no list\n```", "```sh\n- no list\n```"),
        ("| a |\n|---|\n| b |", "| a |\n|---|\n| b |"),
        ("- a\n\nText\n  indented", "- a\n\nText\n  indented"),
    ],
)
def test_lists_are_indented_as_python_markdown_wants_them(site, text, rendered):
    assert site.lists(text) == rendered


@pytest.mark.parametrize(
    "text, without, within",
    [
        ("[a.h](../../shim/a.h)", "`shim/a.h`", "[a.h](https://x/t/shim/a.h)"),
        ("[the a](../../a/b.md#c)", "the a (`a/b.md`)", "[the a](https://x/t/a/b.md#c)"),
        ("[disk](../guides/disk.md#a) [e](https://e/f)", None, None),
        ("```\n[a](../../b)\n```", None, None),
    ],
)
def test_a_link_that_leaves_docs_is_replaced(site, text, without, within):
    assert site.outside(text, "design/protocol.md", "") == (without or text)
    assert site.outside(text, "design/protocol.md", "https://x/t/") == (within or text)


def test_a_page_that_needs_a_network_is_refused(site):
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="a.md"))
    assert site.on_post_page('<a href="https://x">x</a><script src="../a.js">', page, None)
    tags = (
        '<script src="https://x/a.js">',
        "<link href=https://x/a.css rel=stylesheet>",
        '<img alt="" src="http://x/a.png">',
    )
    for tag in tags:
        with pytest.raises(site.PluginError, match=r"a\.md fetches"):
            site.on_post_page(f"<p>{tag}", page, None)
