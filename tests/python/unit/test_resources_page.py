""".ci/resources_page.py writes docs/reference/resources.md from the chart's definitions."""

import importlib.util
import re

import pytest
import yaml


@pytest.fixture
def script(root):
    found = importlib.util.spec_from_file_location("page", root / ".ci" / "resources_page.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_is_current(script, root):
    written = (root / script.PAGE).read_text()
    assert written == script.page(root), f"{script.PAGE} is not current: make docs-map"


def names(schema):
    """The names of all fields below a schema."""
    for name, one in schema.get("properties", {}).items():
        yield name
        yield from names(one)
        yield from names(one.get("items", {}))


def test_the_page_has_every_field_and_every_message(script, root):
    text = " ".join((root / script.PAGE).read_text().split())
    for path in (root / script.DEFINITIONS).glob("*.yaml"):
        schema = yaml.safe_load(path.read_text())["spec"]["versions"][0]["schema"]
        schema = schema["openAPIV3Schema"]
        found = [*names(schema["properties"]["spec"]), *names(schema["properties"]["status"])]
        missing = [one for one in found if not re.search(rf"[`.]{one}[`\n]|\.{one} ", text)]
        assert len(found) > 30 and missing == []
        messages = re.findall(r"""(?m)^ *message: "(.*)"$""", path.read_text())
        assert [
            one for one in messages if " ".join(one.replace('\\"', '"').split()) not in text
        ] == []


FIELDS = {
    "a text": (
        {"type": "string", "minLength": 1, "maxLength": 9, "description": "A name."},
        "- `f` (string; at most 9 characters; not empty). A name.",
    ),
    "a choice": (
        {"type": "string", "enum": ["on", "off"], "default": "on", "description": "on: x. off: y."},
        "- `f` (string; one of `on`, `off`; default `on`). `on`: x. `off`: y.",
    ),
    "a number": (
        {"type": "integer", "minimum": 1, "maximum": 5, "default": 1, "description": "Times."},
        "- `f` (integer; 1 to 5; default `1`). Times.",
    ),
    "a yes or no": (
        {"type": "boolean", "default": True, "description": "Whether."},
        "- `f` (boolean; default `true`). Whether.",
    ),
    "a list": (
        {"type": "array", "items": {"type": "string"}, "maxItems": 3, "description": "Names."},
        "- `f` (list, each item of type string; at most 3 items). Names.",
    ),
    "a rule": (
        {
            "type": "string",
            "description": "A size.",
            "x-kubernetes-validations": [{"rule": "x", "message": "is no size"}],
        },
        "- `f` (string). A size.\n  - Message: is no size",
    ),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field(script, kind):
    schema, item = FIELDS[kind]
    assert script.of_field("f", schema, False) == item


def test_an_old_page_is_found(script, tmp_path, capsys):
    script.ROOT, real = tmp_path, script.ROOT
    (tmp_path / script.PAGE).parent.mkdir(parents=True)
    (tmp_path / script.DEFINITIONS).parent.mkdir(parents=True)
    (tmp_path / script.DEFINITIONS).symlink_to(real / script.DEFINITIONS)
    assert script.main(["--check"]) == 1 and "make docs-map" in capsys.readouterr().out
    assert script.main([]) == 0 and script.main(["--check"]) == 0
