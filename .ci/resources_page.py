"""resources_page.py [--check]: writes PAGE, the reference of CachePool and CacheBackend, from the
definitions of the chart. --check writes no file, and fails if PAGE is not current.

Needs PyYAML (`make docs-map` runs the script in the environment of the site).
"""

import pathlib
import re
import sys
import textwrap

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = pathlib.Path("docs/reference/resources.md")
DEFINITIONS = pathlib.Path("charts/larder/files/crds")
KINDS = ("CachePool", "CacheBackend")
INTRODUCTION = """\
# Resources

<!-- `make docs-map` writes this page from charts/larder/files/crds. -->

Every field of `CachePool` and `CacheBackend`: the type, the default, the bounds, and the rules of
the API server. An item below a field is the message with which the API server refuses a value.
`kubectl explain cachepool.spec` shows the same descriptions. Samples:
[pool-full.yaml](../../manifests/samples/pool-full.yaml), and the other files of
[manifests/samples](../../manifests/samples).
"""


def wrapped(text, indent=""):
    """Lines of at most 100 columns; a line after the first begins with `indent`."""
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def type_of(schema):
    """In words: "string", "integer or string", "list, each item of type string"."""
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "integer or string"
    if schema["type"] == "array":
        return f"list, each item of type {type_of(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map, each value of type {type_of(schema['additionalProperties'])}"
    return schema["type"]


def bounds(schema):
    """The bounds of a value in words."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    if low is not None and high is not None:
        yield f"{low} to {high}"
    elif low is not None or high is not None:
        yield f"at least {low}" if high is None else f"at most {high}"
    for name, limit, unit in (
        ("minLength", "at least", "characters"),
        ("maxLength", "at most", "characters"),
        ("maxItems", "at most", "items"),
        ("maxProperties", "at most", "entries"),
    ):
        if schema.get(name, 0) > 1:
            yield f"{limit} {schema[name]} {unit}"
    if schema.get("minLength") == 1:
        yield "not empty"
    if "pattern" in schema:
        yield f"matches `{schema['pattern']}`"
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield "its fields are not checked here"


def description(schema, values=()):
    """One paragraph. The values of an enumeration stand in code, so that they read as values."""
    text = " ".join(schema.get("description", "").split())
    for value in [*values, *map(str, schema.get("enum", ()))]:
        text = re.sub(rf"(?<![\w`.-]){re.escape(value)}(?=: )", f"`{value}`", text)
    return re.sub(r"(?<=Default: )none(?=\.)", "`none`", text)


def refusals(schema, indent=""):
    """List items of the messages of the rules."""
    for rule in schema.get("x-kubernetes-validations", ()):
        message = " ".join(rule["message"].split())
        yield wrapped(f"{indent}- Message: {message}", f"{indent}  ")


def of_field(name, schema, required):
    """A list item of a field."""
    default = schema.get("default")
    default = str(default).lower() if isinstance(default, bool) else default
    told = [
        type_of(schema),
        *(["required"] if required else []),
        *bounds(schema),
        *([f"default `{default}`"] if default is not None else []),
    ]
    values = [str(default)] if default is not None and schema["type"] == "string" else ()
    text = f"- `{name}` ({'; '.join(told)}). {description(schema, values)}"
    return "\n".join([wrapped(text, "  "), *refusals(schema, "  ")])


def fields(schema, before=""):
    """List items of all fields below a schema, in the order of the definition."""
    for name, one in schema.get("properties", {}).items():
        one = {"type": "string", **one}
        path = f"{before}{name}"
        yield of_field(path, one, name in schema.get("required", ()))
        yield from fields(one, f"{path}.")
        if one["type"] == "array":
            yield from fields(one["items"], f"{path}[].")


def section(name, schema, required):
    """A field with fields below."""
    told = f"{'Required. ' if required else ''}{description(schema)}"
    lines = [f"### {name}\n", wrapped(told) + "\n", *refusals(schema), *fields(schema)]
    return "\n".join(lines) + "\n"


def of_kind(definition):
    kind = definition["spec"]["names"]["kind"]
    version = definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    yield f"## {kind}\n"
    yield (
        wrapped(
            f"`apiVersion: {definition['spec']['group']}/{version['name']}`, `kind: {kind}`, "
            f"{definition['spec']['scope'].lower()}. {description(schema)}"
        )
        + "\n"
    )
    if told := [*refusals(schema), *refusals(spec)]:
        yield "Rules about several fields:\n\n" + "\n".join(told) + "\n"
    for name, one in spec["properties"].items():
        if one.get("properties"):
            yield section(f"{kind} spec.{name}", one, name in spec.get("required", ()))
    single = {name: one for name, one in spec["properties"].items() if not one.get("properties")}
    if single:
        rest = {"properties": single, "required": spec.get("required", ())}
        yield f"### Other fields of {kind} spec\n\n" + "\n".join(fields(rest)) + "\n"
    yield section(f"{kind} status", status, False)


def page(root):
    found = [
        yaml.safe_load(path.read_text()) for path in sorted((root / DEFINITIONS).glob("*.yaml"))
    ]
    by_kind = {one["spec"]["names"]["kind"]: one for one in found}
    if set(by_kind) != set(KINDS):
        raise ValueError(f"{DEFINITIONS}: has {sorted(by_kind)}, and the page is of {KINDS}")
    parts = [part for kind in KINDS for part in of_kind(by_kind[kind])]
    return "\n".join([INTRODUCTION, *parts])


def main(arguments):
    new, path = page(ROOT), ROOT / PAGE
    if arguments == ["--check"]:
        current = path.exists() and path.read_text() == new
        if not current:
            print(f"{PAGE} is older than {DEFINITIONS}: make docs-map")
        return int(not current)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
